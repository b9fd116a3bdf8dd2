"""What goes wrong around the program is said in a sentence that helps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from tests.support.postgres import PrivateServer, in_database
from tests.support.program import Program, run, until, value, watching
from tests.support.reader import differences

SECRET = "hunter2"


@pytest.fixture(scope="module")
def node() -> Iterator[Devnode]:
    config = DevnodeConfig(profile="mixed", height=400, finality_depth=10)
    with running_devnode(config) as running:
        yield running


def said(error: str) -> str:
    """Return what was said, having checked the manner."""
    assert "Traceback" not in error
    assert SECRET not in error
    return error


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{SECRET}@127.0.0.1:1/none",
        f"host=127.0.0.1 port=1 user=user password={SECRET}",
        f"postgresql://user:{SECRET}@no-such-host.invalid/none",
    ],
)
@pytest.mark.parametrize("command", [["migrate"], ["status"], ["jobs", "list"]])
def test_a_database_that_does_not_answer(url: str, command: list[str]) -> None:
    result = run(*command, "--database-url", url)
    assert result.returncode == 1
    assert "--database-url" in said(result.stderr)


def test_a_url_that_is_none_is_bad_usage() -> None:
    result = run("migrate", "--database-url", f"postgresql//user:{SECRET}@h/d")
    assert result.returncode == 2
    assert "postgresql://" in said(result.stderr)


def test_a_database_that_does_not_exist_and_a_user_that_does_not(
    database_url: str,
) -> None:
    result = run("status", "--database-url", in_database(database_url, "missing"))
    assert result.returncode == 1
    assert "does not exist" in said(result.stderr)
    other = database_url.replace("postgres@", f"nobody:{SECRET}@")
    result = run("status", "--database-url", other)
    assert result.returncode == 1
    assert "--database-url" in said(result.stderr)


def test_a_schema_that_was_not_migrated_or_is_newer_names_the_way_on(
    empty_database_url: str, database_url: str, node: Devnode
) -> None:
    commands = (
        ["plan", "--from", "0", "--to", "9"],
        ["work", "--drain", "--rpc-url", node.url],
        ["follow", "--rpc-url", node.url],
        ["status"],
        ["jobs", "list"],
    )
    for command in commands:
        result = run(*command, "--database-url", empty_database_url)
        assert result.returncode == 1, command
        assert "indexer migrate" in said(result.stderr)
    with watching(database_url) as conn:
        conn.execute("insert into indexer.migrations values (9999, '9999_x', 'x')")
    for command in (*commands, ["migrate"]):
        result = run(*command, "--database-url", database_url)
        assert result.returncode == 1, command
        assert "upgrade the program" in said(result.stderr)


def test_a_node_that_does_not_answer_is_named_without_its_key(
    database_url: str,
) -> None:
    for url in (f"http://127.0.0.1:1/v2/{SECRET}", f"ws://127.0.0.1:1/{SECRET}"):
        for command in (
            ["plan", "--from", "0", "--to", "9"],
            ["work", "--drain"],
            ["follow"],
        ):
            result = run(*command, "--database-url", database_url, "--rpc-url", url)
            assert result.returncode == 1, (command, result.stderr)
            assert "127.0.0.1:1" in said(result.stderr)
    assert value(database_url, "select count(*) from indexer.jobs") == 0


def test_a_node_that_goes_away_costs_no_attempt_and_its_return_no_command(
    database_url: str,
) -> None:
    options = ["devnode", "--profile", "mixed", "--height", "100"]
    with Program(*options, "--port", "0") as first:
        rpc_url = first.expect(r"http://127.0.0.1:(\d+)")[0]
        where = ["--database-url", database_url, "--rpc-url", rpc_url]
        planned = run("plan", "--from", "0", "--to", "30", *where)
        assert planned.returncode == 0, planned.stderr
        with Program("work", "--chunk-blocks", "1", "--drain", *where) as worker:
            until(
                lambda: value(database_url, "select max(number) from indexer.blocks"),
                what="the worker has begun",
            )
            first.kill()
            until(
                lambda: value(
                    database_url,
                    "select coalesce(max(snoozes), 0) from indexer.jobs",
                ),
                what="the job is snoozed",
            )
            with Program(*options, "--port", rpc_url.rsplit(":", 1)[1]):
                assert worker.wait() == 0
                assert differences(rpc_url, database_url, range(30)) == []
            said(worker.err)
    with watching(database_url) as conn:
        rows = conn.execute(
            "select attempts, errors, lost_leases from indexer.jobs_history"
        ).fetchall()
    assert set(rows) == {(1, 0, 0)}


# Just above a WAL segment: PostgreSQL can log everything, and extend no table beyond.
FILE_BYTES = 16 * 1024 * 1024 + 64 * 1024
BLOCKS = 40

# Brings the table to the limit with rows at heights that nobody looks at.
FILL = f"""
do $$
declare at bigint := 500000;
begin
    while pg_relation_size('indexer.transactions_p000000') < {FILE_BYTES - 65536} loop
        insert into indexer.transactions (block_number, transaction_index, hash, input)
        select at, each, '', decode(repeat('ab', 1900), 'hex')
        from generate_series(0, 63) as each;
        at := at + 1;
    end loop;
end $$
"""

START_LIMITED = """
import os, resource, signal, sys
from pathlib import Path
from indexer.db.embedded import EmbeddedServer
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), hard))
EmbeddedServer(Path(sys.argv[1])).start()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_full_disk_stops_nothing_for_good_and_leaves_nothing_half_written(
    private_server: PrivateServer,
) -> None:
    """The server may not write files above a size, as under ``ulimit -f``."""
    url = private_server.start()
    config = DevnodeConfig(profile="dense", height=BLOCKS, finality_depth=0)
    with running_devnode(config) as node:
        assert run("migrate", "--database-url", url).returncode == 0
        where = ["--database-url", url, "--rpc-url", node.url]
        assert run("plan", "--from", "0", "--to", str(BLOCKS), *where).returncode == 0
        with watching(url) as conn:
            conn.execute(FILL.encode())
        private_server.stop()
        home = str(private_server.embedded.home)
        subprocess.run(
            [sys.executable, "-c", START_LIMITED, home, str(FILE_BYTES)], check=False
        )
        private_server.start()
        with Program("work", "--log-format", "text", *where) as worker:
            worker.expect("no room left")
            assert "Make room" in said(worker.err)
            # Whole blocks or none.
            assert value(url, TORN) == 0
            # Somebody makes room: here the server starts anew without the limit.
            private_server.restart()
            until(lambda: value(url, DUE_NOW), what="the jobs are done after all")
        said(worker.err)
        assert differences(node.url, url, range(BLOCKS)) == []
    assert value(url, "select max(errors) from indexer.jobs_history") == 0


TORN = """
select count(*)
from (select * from indexer.transactions where block_number < 500000) as t
full join indexer.blocks as b on b.number = t.block_number
where b.number is null or (t.block_number is null and b.number > 0)
"""

DUE_NOW = """
with due as (
    update indexer.jobs set run_at = now() where status = 'pending' and run_at > now()
)
select count(*) = 0 from indexer.jobs
"""
