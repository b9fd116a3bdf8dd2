"""The recorded chain of every fork, served by a node, fetched, stored and proven."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from indexer.chain.verify import EVERYTHING
from indexer.devnode.recorded import RecordedChain
from indexer.devnode.server import Devnode, running_devnode
from indexer.ranges import BlockRange
from indexer.services.chainprofile import make_prover
from indexer.services.verify.faults import FaultKind
from indexer.services.verify.record import Asked
from indexer.store import blocks as stored
from indexer.store import coverage
from indexer.store.partitions import ensure_partitions
from tests.support.auditing import auditing
from tests.support.fixtures import needs_fixtures, result
from tests.support.rlpchain import as_json, rlp_chain

HEIGHTS = range(0, 55)
CHAIN_ID = 3503995874084926


@pytest.fixture
def node() -> Iterator[Devnode]:
    """A node of that chain; of its receipts only the first block's are recorded."""
    pair = result("execution-apis/eth_getBlockByNumber.get-genesis.json")
    genesis = pair["response"]["result"]
    pair = result("execution-apis/eth_getBlockReceipts.get-block-receipts-n.json")
    receipts = pair["response"]["result"]
    blocks: list[tuple[Any, list[Any]]] = [(genesis, [])]
    for data in rlp_chain():
        known = receipts if data.block.number == 1 else []
        blocks.append((as_json(data), known))
    with running_devnode(chain=RecordedChain(blocks, chain_id=CHAIN_ID)) as served:
        yield served


@needs_fixtures
async def test_c3_the_recorded_chain_of_every_fork_is_stored_and_proven_whole(
    node: Devnode, database_url: str
) -> None:
    async with auditing(database_url, node.url) as here:
        prover = await make_prover(here.database, here.endpoints, level="strict")
        assert prover.profile.proves == EVERYTHING
        [endpoint] = here.endpoints.all
        blocks = await prover.fetch_blocks(endpoint, HEIGHTS)
        refs = [each.ref() for each in blocks.data[:2]]
        events = await prover.fetch_events(endpoint, refs)
        async with here.database.connection() as conn:
            await ensure_partitions(conn, BlockRange(0, 54))
        async with here.database.transaction() as conn:
            await stored.write_blocks(
                conn, data=blocks.data, fresh=True, certainty=blocks.certainty
            )
            await stored.write_events(
                conn,
                data=events.data,
                fresh=True,
                final=True,
                certainty=events.certainty,
            )
        async with here.database.connection() as conn:
            noted = await coverage.noted(
                conn, dataset="blocks", blocks=BlockRange(0, 54)
            )
        assert noted.proven == [BlockRange(0, 54)]
        whole = await here.verify(Asked(0, 2), with_node=True)
        assert (whole.faults, whole.events.proven) == ([], 2)
        report = await here.verify(with_node=True)
        assert (report.blocks.proven, report.not_provable) == (55, [])
        # Without receipts, which are not recorded; no link and no root is wrong.
        assert {each.kind for each in report.faults} == {FaultKind.MISSING_EVENTS}
        [fault] = report.faults
        assert fault.blocks == BlockRange(2, 54)
