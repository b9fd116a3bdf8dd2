"""A stored fork that no node has: links and roots hold, so only a node can tell."""

from __future__ import annotations

from dataclasses import replace

from indexer.devnode.faults import parse_fault
from indexer.devnode.server import DevnodeConfig, running_devnode
from indexer.services.verify.faults import FaultKind
from tests.support.auditing import auditing
from tests.support.backfilling import backfill
from tests.support.reader import differences

STORED = range(0, 60)
FORK = 40


CONFIG = DevnodeConfig(profile="mixed", height=100, finality_depth=10)


async def test_c6_a_fork_below_the_finalized_height_is_named_and_replaced_by_repair(
    database_url: str,
) -> None:
    with (
        running_devnode(replace(CONFIG, forks=((FORK, 1),))) as other,
        running_devnode(CONFIG) as node,
    ):
        await backfill(database_url, [other.url], STORED)
        async with auditing(database_url, node.url) as here:
            assert (await here.verify()).faults == []
            report = await here.verify(with_node=True)
            assert [(each.kind, each.blocks) for each in report.faults] == [
                (FaultKind.OTHER_BLOCK, (FORK + 1, STORED[-1]))
            ]
            await here.repair(report)
            assert (await here.verify(with_node=True)).faults == []
        assert differences(node.url, database_url, STORED) == []


async def test_c6_nothing_is_deleted_where_no_replacement_is_to_be_had(
    database_url: str,
) -> None:
    with running_devnode(CONFIG) as node:
        await backfill(database_url, [node.url], STORED)
        count = "select count(*) from indexer.receipts"
        async with auditing(database_url, node.url) as here:
            await here.run(
                "update indexer.receipts set status = 1 - status where "
                "block_number = 23 and transaction_index = 0"
            )
            report = await here.verify()
            before = await here.run(count)
            node.faults.add(parse_fault("tampered:from_height=23,to_height=23"))
            done = await here.repair(report)
            assert done.replaced == []
            assert "block 23" in done.left[0]
            assert await here.run(count) == before
            assert (await here.verify()).faults == report.faults
