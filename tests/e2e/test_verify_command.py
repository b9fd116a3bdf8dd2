"""``indexer verify`` and ``indexer forget`` as their user runs them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from tests.support.program import Program, run, until, value, watching
from tests.support.reader import differences

HEIGHT = 2_300
STORED = 2_200


@pytest.fixture(scope="module")
def node() -> Iterator[Devnode]:
    config = DevnodeConfig(profile="sparse", height=HEIGHT, finality_depth=10)
    with running_devnode(config) as running:
        yield running


@pytest.fixture
def where(node: Devnode, database_url: str) -> list[str]:
    """Options for a database that holds the chain."""
    options = ["--database-url", database_url, "--rpc-url", node.url]
    planned = run("plan", "--from", "0", "--to", str(STORED), *options)
    assert planned.returncode == 0, planned.stderr
    worked = run("work", "--drain", *options)
    assert worked.returncode == 0, worked.stderr
    return options


def test_what_is_stored_is_signed_off_and_what_is_damaged_is_not(
    where: list[str], node: Devnode, database_url: str
) -> None:
    offline = where[:2]
    sound = run("verify", *offline)
    assert sound.returncode == 0, sound.stdout + sound.stderr
    assert "SOUND: every stored row" in sound.stdout
    assert "not compared with a node" in sound.stdout
    assert re.search(r"signed off by indexer \S+, sha256 [0-9a-f]{64}", sound.stdout)

    damage = (
        "update indexer.blocks set gas_used = gas_used + 1 where number = 2100",
        "delete from indexer.blocks where number between 1200 and 1210",
        "delete from indexer.logs where block_number = (select max(block_number) "
        "from indexer.logs)",
        "insert into indexer.logs (block_number, log_index, address, data) "
        "values (9000, 0, '', '')",
    )
    with watching(database_url) as conn:
        for statement in damage:
            assert conn.execute(statement.encode()).rowcount > 0
    # In several processes, and with a node.
    found = run("verify", *where, "--json", "--processes", "2")
    assert found.returncode == 1, found.stderr
    report = json.loads(found.stdout)
    kinds = {each["kind"] for each in report["faults"]}
    assert {"wrong header", "missing block", "orphaned rows"} <= kinds
    assert {(each["first"], each["last"]) for each in report["faults"]} >= {
        (2100, 2100),
        (1200, 1210),
        (9000, 9000),
    }
    assert report["blocks"]["wrong"] == 1
    assert report["against"]["hashes_compared"] > 0
    # A sample that is drawn again is the same one, and misses what it does not draw.
    draw = ["verify", *offline, "--sample", "50", "--seed", "7", "--json"]
    one, two = (json.loads(run(*draw).stdout) for _ in range(2))
    assert one["blocks"] == two["blocks"]
    assert one["blocks"]["looked_at"] <= 50
    assert any(each["kind"] == "missing block" for each in one["faults"])

    repaired = run("verify", *where, "--repair")
    assert repaired.returncode == 1
    assert "repair: replaced by the node's: 2100..2100" in repaired.stdout
    # What is queued is known to be missing: no fault, but not called whole either.
    waiting = run("verify", *offline)
    assert waiting.returncode == 0, waiting.stdout
    assert "not yet there: 11 blocks" in waiting.stdout
    assert "SOUND as far as" in waiting.stdout
    assert run("work", "--drain", *where).returncode == 0
    again = run("verify", *where)
    assert again.returncode == 0, again.stdout
    assert differences(node.url, database_url, range(STORED)) == []
    assert value(database_url, "select count(*) from indexer.logs") == value(
        database_url,
        "select count(*) from indexer.logs join indexer.blocks on number = "
        "block_number",
    )


def test_an_interrupted_audit_goes_on_where_it_was(
    where: list[str], database_url: str
) -> None:
    pieces = "select count(*) from indexer.audit_pieces"
    with watching(database_url) as conn, conn.transaction():
        conn.execute("lock table indexer.audit_pieces in share mode")
        with Program("verify", *where[:2], "--processes", "1") as first:
            until(
                lambda: value(
                    database_url,
                    "select count(*) from pg_stat_activity where wait_event_type = "
                    "'Lock' and query like '%audit_pieces%'",
                ),
                what="the audit has looked at its first piece",
            )
            first.kill()
    with watching(database_url) as conn:
        # The server may still have noted it, or not; a mark tells that it was not
        # looked at again.
        row = conn.execute("select max(id) from indexer.audits").fetchone()
        assert row is not None
        found = {
            "first": 0,
            "last": 999,
            "found": {
                "blocks": {"looked_at": 1000, "proven": 1000},
                "events": {"looked_at": 1000, "proven": 1000},
                "rows": 123_456_789,
            },
        }
        conn.execute(
            "insert into indexer.audit_pieces values (%s, 0, 999, %s) "
            "on conflict (audit_id, first, last) do update set found = excluded.found",
            [row[0], json.dumps(found)],
        )
    gone_on = run("verify", *where[:2], "--json")
    assert gone_on.returncode == 0, gone_on.stderr
    report = json.loads(gone_on.stdout)
    assert report["audit"] == row[0]
    assert report["blocks"]["proven"] == STORED
    assert report["rows"] > 123_456_789
    assert "going on with audit" in gone_on.stderr
    assert value(database_url, pieces) == 0
    anew = json.loads(run("verify", *where[:2], "--restart", "--json").stdout)
    assert anew["audit"] > report["audit"]
    assert anew["rows"] < 123_456_789


def test_a_range_is_forgotten_with_everything_that_hangs_on_it(
    where: list[str], node: Devnode, database_url: str
) -> None:
    with watching(database_url) as conn:
        conn.execute(
            "insert into indexer.jobs (kind, payload, status, claim_token, run_at) "
            "values ('index_blocks', '{\"from\": 900, \"to\": 1999}', 'running', "
            'gen_random_uuid(), now()), (\'index_events\', \'{"from": 1100, "to": '
            "1200}', 'failed', null, now()), ('index_blocks', '{\"from\": 0, \"to\": "
            "10}', 'failed', null, now())"
        )
    options = ["--from", "1000", "--to", "1500", *where[:2]]
    asked = run("forget", *options)
    assert asked.returncode == 2
    assert "--yes" in asked.stderr
    assert value(database_url, "select count(*) from indexer.blocks") == STORED
    done = run("forget", *options, "--yes")
    assert done.returncode == 0, done.stderr
    assert "500 blocks" in done.stdout
    with watching(database_url) as conn:
        for table in ("transactions", "withdrawals", "receipts", "logs"):
            row = conn.execute(
                f"select count(*) from indexer.{table} where block_number between "
                "1000 and 1499".encode()
            ).fetchone()
            assert row == (0,), table
        jobs = conn.execute(
            "select kind, payload, status from indexer.jobs order by 1, "
            "(payload ->> 'from')::int"
        ).fetchall()
        noted = conn.execute(
            "select dataset, stored::text, proven::text from indexer.coverage "
            "order by dataset"
        ).fetchall()
    # What the jobs stood for beside the range is queued anew.
    assert jobs == [
        ("index_blocks", {"from": 0, "to": 10}, "failed"),
        ("index_blocks", {"from": 900, "to": 999}, "pending"),
        ("index_blocks", {"from": 1500, "to": 1999}, "pending"),
    ]
    left = "{[0,1000),[1500,2200)}"
    assert noted == [("blocks", left, left), ("events", left, left)]
    # Nobody misses it, until somebody asks for it again.
    assert run("verify", *where[:2]).returncode == 0
    missed = run("verify", "--from", "900", "--to", "1100", *where[:2])
    assert missed.returncode == 1
    assert "blocks 1000..1099: missing block" in missed.stdout
    assert run("plan", "--from", "0", "--to", str(STORED), *where).returncode == 0
    assert run("work", "--drain", *where).returncode == 0
    assert differences(node.url, database_url, range(STORED)) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["verify", "--repair"], "--repair needs a node"),
        (["verify", "--from", "5", "--to", "5"], "holds no height"),
        (["verify", "--from", "-1"], "negative"),
        (["verify", "--from", "x"], "not a height"),
        (["verify", "--sample", "0"], "0"),
        (["verify", "--seed", "3"], "--sample"),
        (["forget", "--from", "9", "--to", "5", "--yes"], "holds no height"),
        (["forget", "--from", "9", "--yes"], "--to"),
    ],
)
def test_bad_usage_ends_before_anything_is_done(
    arguments: list[str], says: str
) -> None:
    result = run(*arguments, "--database-url", "postgresql://127.0.0.1:1/none")
    assert result.returncode == 2, result.stderr
    assert says in result.stderr
    assert "Traceback" not in result.stderr


def test_an_empty_schema_is_sound_and_says_that_it_is_empty(
    database_url: str,
) -> None:
    result = run("verify", "--database-url", database_url)
    assert result.returncode == 0, result.stderr
    assert "blocks nothing" in result.stdout
