"""A database damaged by hand: every damage is named, and repaired to be the chain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from indexer.errors import MigrationError
from indexer.services.verify.faults import FaultKind
from tests.support import postgres
from tests.support.auditing import auditing
from tests.support.program import run, value, watching
from tests.support.reader import differences

STORED = range(0, 260)


@pytest.fixture(scope="module")
def node() -> Iterator[Devnode]:
    config = DevnodeConfig(profile="mixed", height=300, finality_depth=10)
    with running_devnode(config) as running:
        yield running


@pytest.fixture(scope="module")
def indexed(server: str, template: str, node: Devnode) -> Iterator[str]:
    """A database that is the chain, and is again after each repair."""
    with postgres.new_database(server, template) as url:
        where = ["--database-url", url, "--rpc-url", node.url]
        planned = run("plan", "--from", "0", "--to", str(STORED.stop), *where)
        assert planned.returncode == 0, planned.stderr
        worked = run("work", "--drain", *where)
        assert worked.returncode == 0, worked.stderr
        yield url


def copied(server: str, url: str) -> AbstractContextManager[str]:
    """A copy of a database that a test may leave as it likes."""
    return postgres.new_database(server, urlsplit(url).path.removeprefix("/"))


class Damage(NamedTuple):
    """Statements, the last of which gives a height, and what has to be said of it."""

    done_by: str
    kinds: set[FaultKind]


# A block in the middle with several logs, of several transactions.
BUSY = """
(
    select block_number from indexer.logs where block_number > 100
    group by block_number having count(distinct transaction_index) > 2
    order by block_number limit 1
)
"""

DAMAGES = {
    "a missing block": Damage(
        f"delete from indexer.blocks where number = {BUSY} returning number",
        {FaultKind.MISSING_BLOCK, FaultKind.ORPHANED_ROWS},
    ),
    "a missing block without a trace": Damage(
        "delete from indexer.logs where block_number = 120;"
        "delete from indexer.receipts where block_number = 120;"
        "delete from indexer.transactions where block_number = 120;"
        "delete from indexer.withdrawals where block_number = 120;"
        "delete from indexer.blocks where number = 120 returning number",
        {FaultKind.MISSING_BLOCK},
    ),
    "a missing log": Damage(
        f"delete from indexer.logs where block_number = {BUSY} and log_index = 1 "
        "returning block_number",
        {FaultKind.LOGS},
    ),
    "a missing last log": Damage(
        f"delete from indexer.logs where block_number = {BUSY} and log_index = "
        f"(select max(log_index) from indexer.logs where block_number = {BUSY}) "
        "returning block_number",
        {FaultKind.RECEIPTS},
    ),
    "altered data of a log": Damage(
        "update indexer.logs set data = data || '\\x00' "
        f"where block_number = {BUSY} and log_index = 0 returning block_number",
        {FaultKind.RECEIPTS},
    ),
    "swapped topics": Damage(
        "update indexer.logs set topic0 = topic1, topic1 = topic0 where "
        "(block_number, log_index) = (select block_number, log_index "
        "from indexer.logs where topic1 <> topic0 order by 1, 2 limit 1) "
        "returning block_number",
        {FaultKind.RECEIPTS},
    ),
    "orphaned rows above the chain": Damage(
        "insert into indexer.receipts (block_number, transaction_index, "
        "transaction_hash) values (900, 0, '\\x01') returning block_number",
        {FaultKind.ORPHANED_ROWS},
    ),
    "a wrong hash": Damage(
        "update indexer.blocks set hash = sha256(hash) where number = 130 "
        "returning number",
        {FaultKind.HEADER},
    ),
    "a wrong parent": Damage(
        "update indexer.blocks set parent_hash = sha256(hash) where number = 130 "
        "returning number",
        {FaultKind.HEADER, FaultKind.BROKEN_LINK},
    ),
    "a time that is none": Damage(
        "update indexer.blocks set timestamp = 'infinity' where number = 131 "
        "returning number",
        {FaultKind.HEADER},
    ),
    "an extra log": Damage(
        "insert into indexer.logs (block_number, log_index, transaction_index, "
        "transaction_hash, address, data) select block_number, log_index + 1, "
        "transaction_index, transaction_hash, address, data from indexer.logs "
        f"where block_number = {BUSY} order by log_index desc limit 1 "
        "returning block_number",
        {FaultKind.RECEIPTS},
    ),
    "an extra transaction": Damage(
        "insert into indexer.transactions (block_number, transaction_index, hash) "
        f"select block_number, count(*), '\\x01' from indexer.transactions "
        f"where block_number = {BUSY} group by 1 returning block_number",
        {FaultKind.TRANSACTIONS, FaultKind.RECEIPTS},
    ),
    "shifted log indexes": Damage(
        f"update indexer.logs set log_index = log_index + 1000 where block_number = "
        f"{BUSY} and log_index > 0;"
        f"update indexer.logs set log_index = log_index - 999 where block_number = "
        f"{BUSY} and log_index > 0 returning block_number",
        {FaultKind.LOGS},
    ),
    "an altered value": Damage(
        "update indexer.transactions set value = value + 1 where block_number = "
        f"{BUSY} and transaction_index = 1 returning block_number",
        {FaultKind.TRANSACTIONS},
    ),
    "a value that is no number": Damage(
        "update indexer.transactions set value = 'NaN' where block_number = "
        f"{BUSY} and transaction_index = 1 returning block_number",
        {FaultKind.TRANSACTIONS},
    ),
    "an altered status": Damage(
        "update indexer.receipts set status = 1 - status where block_number = "
        f"{BUSY} and transaction_index = 0 returning block_number",
        {FaultKind.RECEIPTS},
    ),
    "another transaction's hash in a receipt": Damage(
        "update indexer.receipts set transaction_hash = sha256(transaction_hash) "
        f"where block_number = {BUSY} and transaction_index = 0 "
        "returning block_number",
        {FaultKind.RECEIPTS},
    ),
    "a missing receipt": Damage(
        f"delete from indexer.receipts where block_number = {BUSY} and "
        "transaction_index = 1 returning block_number",
        {FaultKind.RECEIPTS},
    ),
    "a missing last receipt": Damage(
        f"delete from indexer.receipts where block_number = {BUSY} and "
        "transaction_index = (select max(transaction_index) from indexer.receipts "
        f"where block_number = {BUSY}) returning block_number",
        {FaultKind.RECEIPTS},
    ),
    "a missing withdrawal": Damage(
        "delete from indexer.withdrawals where (block_number, index) = (select "
        "block_number, index from indexer.withdrawals order by 1, 2 limit 1) "
        "returning block_number",
        {FaultKind.WITHDRAWALS},
    ),
    "a signature that is gone": Damage(
        f"update indexer.transactions set r = null where block_number = {BUSY} "
        "and transaction_index = 1 returning block_number",
        {FaultKind.TRANSACTIONS},
    ),
    "a header that lacks a field": Damage(
        "update indexer.blocks set state_root = null where number = 133 "
        "returning number",
        {FaultKind.HEADER},
    ),
    "an altered bloom of a receipt": Damage(
        "update indexer.receipts set logs_bloom = set_bit(logs_bloom, 5, "
        f"1 - get_bit(logs_bloom, 5)) where block_number = {BUSY} "
        "and transaction_index = 0 returning block_number",
        {FaultKind.BLOOM},
    ),
    "a truncated partition of logs": Damage(
        f"truncate indexer.logs_p000000; select {BUSY.replace('logs', 'receipts')}",
        {FaultKind.RECEIPTS},
    ),
    "truncated partitions of receipts and logs": Damage(
        "truncate indexer.logs_p000000; truncate indexer.receipts_p000000;"
        f"select {BUSY.replace('logs', 'transactions')}",
        {FaultKind.MISSING_EVENTS},
    ),
    "a truncated partition of blocks": Damage(
        f"create temp table busy as select {BUSY} as number;"
        "truncate indexer.blocks_p000000; select number from busy",
        {FaultKind.MISSING_BLOCK, FaultKind.ORPHANED_ROWS},
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
async def test_c3_damage_is_named_and_repaired_to_be_the_chain(
    indexed: str, node: Devnode, name: str
) -> None:
    damage = DAMAGES[name]
    async with auditing(indexed, node.url) as here:
        rows: list[tuple[object, ...]] = []
        async with here.database.connection() as conn:
            for statement in damage.done_by.split(";"):
                cursor = await conn.execute(statement.encode())
                rows = await cursor.fetchall() if cursor.description else []
        height = rows[0][0]
        assert isinstance(height, int)
        report = await here.verify()
        named = {
            fault.kind for fault in report.faults if height in fault.blocks.heights()
        }
        assert damage.kinds <= named, list(map(str, report.faults))
        assert not report.is_clean
        # It is found again, and nothing of it is called proven meanwhile.
        again = await here.verify(with_node=True)
        assert {each.kind for each in again.faults} - {FaultKind.OTHER_BLOCK} == {
            each.kind for each in report.faults
        }
        await here.repair(again)
        assert (await here.verify(with_node=True)).faults == []
    assert differences(node.url, indexed, STORED) == []


def _busy_heights(url: str, taken: set[int]) -> list[int]:
    """Return heights like the one above, none of them taken or beside one that is."""
    with watching(url) as conn:
        rows = conn.execute(
            "select block_number from indexer.logs where block_number > 100 group by "
            "block_number having count(distinct transaction_index) > 2 order by 1"
        ).fetchall()
    heights = [int(str(row[0])) for row in rows]
    return [each for each in heights if not taken & {each - 1, each, each + 1}]


def _damaged(url: str, names: list[str]) -> dict[str, int]:
    """Do every damage, each to a block of its own as far as it lets one choose."""
    fixed = {120, 130, 131, 133}
    left = _busy_heights(url, fixed)
    done: dict[str, int] = {}
    with watching(url) as conn:
        for name in names:
            statements = DAMAGES[name].done_by
            if BUSY in statements:
                statements = statements.replace(BUSY, str(left.pop(0)))
            for statement in statements.split(";"):
                cursor = conn.execute(statement.encode())
            [height] = cursor.fetchone() or [None]
            done[name] = int(str(height))
    return done


def test_c3_damages_of_all_kinds_at_once_are_named_and_repaired_by_the_commands(
    indexed: str, node: Devnode
) -> None:
    where = ["--database-url", indexed, "--rpc-url", node.url]
    truncated = [name for name in DAMAGES if "truncated" in name]
    others = [name for name in DAMAGES if name not in truncated]
    assert len(others) > 20
    for names in (others, truncated):
        done = _damaged(indexed, names)
        found = run("verify", "--json", "--processes", "1", *where[:2])
        assert found.returncode == 1, found.stderr
        faults = json.loads(found.stdout)["faults"]
        for name, height in done.items():
            named = {
                each["kind"]
                for each in faults
                if each["first"] <= height <= each["last"]
            }
            # What is gone altogether hides what is wrong with it.
            hidden = names is truncated and {FaultKind.MISSING_BLOCK} <= named
            assert hidden or DAMAGES[name].kinds <= named, (name, height, named)
        repaired = run("verify", "--repair", "--processes", "1", *where)
        assert repaired.returncode == 1, repaired.stderr
        worked = run("work", "--drain", *where)
        assert worked.returncode == 0, worked.stderr
        again = run("verify", "--processes", "1", *where)
        assert again.returncode == 0, again.stdout
        assert differences(node.url, indexed, STORED) == []
        assert value(indexed, _STRAYS) == 0


# Rows above what the reader compares.
_STRAYS = "select " + " + ".join(
    f"(select count(*) from indexer.{table} where {column} >= {STORED.stop})"
    for table, column in (
        ("blocks", "number"),
        ("transactions", "block_number"),
        ("withdrawals", "block_number"),
        ("receipts", "block_number"),
        ("logs", "block_number"),
    )
)


async def test_c3_coverage_calls_nothing_proven_that_was_found_wrong(
    indexed: str, node: Devnode
) -> None:
    async with auditing(indexed, node.url) as here:
        await here.run(
            "update indexer.transactions set value = value + 1 "
            "where block_number = 7 and transaction_index = 0"
        )
        await here.run(
            "update indexer.receipts set status = 1 - status "
            "where block_number = 9 and transaction_index = 0"
        )
        # Of what is noted, too much.
        await here.run(
            "update indexer.coverage set stored = stored + '{[280,290)}', "
            "proven = '{[0,260),[280,290)}', unprovable = '{[3,4)}', audited_at = null"
        )
        report = await here.verify()
        proven = await here.run(
            "select dataset, (proven * '{[0,300)}')::text, unprovable::text, "
            "stored::text, audited_at is not null from indexer.coverage order by 1"
        )
        assert proven == [
            ("blocks", "{[0,7),[8,260)}", "{}", "{[0,260)}", True),
            ("events", "{[0,9),[10,260)}", "{}", "{[0,260)}", True),
        ]
        # What was noted as stored and is not there is missed, now and later.
        missing = [each for each in report.faults if each.first >= 280]
        assert [(each.kind, each.blocks) for each in missing] == [
            (FaultKind.MISSING_BLOCK, (280, 289))
        ]
        again = await here.verify()
        assert missing[0] in again.faults
        await here.repair(again)
        assert (await here.verify()).faults == []
    stored = [*STORED, *range(280, 290)]
    assert all(
        differences(node.url, indexed, range(each, each + 1)) == [] for each in stored
    )


async def test_c3_what_the_node_has_no_block_for_is_left_with_what_to_do(
    indexed: str, server: str, node: Devnode
) -> None:
    with copied(server, indexed) as url:
        async with auditing(url, node.url) as here:
            await here.run(
                "insert into indexer.blocks (number, hash, parent_hash) "
                "values (999999, '\\x01', '\\x02')"
            )
            await here.run(
                "insert into indexer.coverage (dataset, bucket, stored) "
                "values ('blocks', 77, '{[770000,770010)}')"
            )
            report = await here.verify()
            assert [(each.kind, each.first) for each in report.faults] == [
                (FaultKind.MISSING_BLOCK, 770_000),
                (FaultKind.HEADER, 999_999),
            ]
            done = await here.repair(report)
            assert done.jobs_queued == 0
            for text, (first, end) in zip(
                done.left, [(770_000, 770_010), (999_999, 1_000_000)], strict=True
            ):
                command = f"forget --from {first} --to {end}"
                assert f"`indexer {command}` removes them" in text
                forgot = run(*command.split(), "--yes", "--database-url", url)
                assert forgot.returncode == 0, forgot.stderr
            assert (await here.verify(with_node=True)).faults == []


async def test_a_partition_that_was_detached_is_named_with_what_to_do(
    indexed: str, server: str, node: Devnode
) -> None:
    with copied(server, indexed) as url:
        async with auditing(url, node.url) as here:
            await here.run(
                "alter table indexer.logs detach partition indexer.logs_p000000"
            )
            report = await here.verify()
            assert {each.kind for each in report.faults} >= {FaultKind.RECEIPTS}
            with pytest.raises(MigrationError, match="detached it") as caught:
                await here.repair(report)
            await here.run(str(caught.value).split("`")[1])
            assert (await here.verify(with_node=True)).faults == []


# Where nothing was asked for; what is there then is more than was.
_OUTSIDE = {
    "a block that nobody made above the chain": Damage(
        "insert into indexer.blocks (number, hash, parent_hash) select 260, '\\x01', "
        "hash from indexer.blocks where number = 259 returning number",
        {FaultKind.HEADER},
    ),
    "rows below the first block": Damage(
        "create table indexer.blocks_below partition of indexer.blocks "
        "for values from (-10) to (0);"
        "insert into indexer.blocks (number, hash, parent_hash) "
        "values (-1, '\\x01', '\\x02') returning number",
        {FaultKind.ORPHANED_ROWS},
    ),
}


@pytest.mark.parametrize("name", _OUTSIDE)
async def test_c3_damage_outside_what_was_asked_for_is_named_and_repaired(
    indexed: str, server: str, node: Devnode, name: str
) -> None:
    with copied(server, indexed) as url:
        async with auditing(url, node.url) as here:
            for statement in _OUTSIDE[name].done_by.split(";"):
                await here.run(statement)
            report = await here.verify()
            assert {each.kind for each in report.faults} == _OUTSIDE[name].kinds
            await here.repair(report)
            assert (await here.verify(with_node=True)).faults == []
        assert differences(node.url, url, range(STORED.stop)) == []
        assert value(url, "select min(number) from indexer.blocks") == 0
        assert value(url, "select min(length(hash)) from indexer.blocks") == 32
