"""Fetch blocks, and their receipts and logs, whole or not at all.

Everything here is asked of the one endpoint that is passed in (C7); whoever calls
turns to another with the whole of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from indexer.chain.checks import (
    check_block,
    check_events,
    check_links,
    may_have_logs,
)
from indexer.chain.decode import decode_blocks
from indexer.chain.endpoint import Endpoint
from indexer.chain.envelope import Call
from indexer.chain.receipts import fetch_receipts
from indexer.errors import NotYetAvailable
from indexer.rows import BlockData, BlockEvents, BlockRef

_BLOCK: Final = "eth_getBlockByNumber"


async def fetch_blocks(endpoint: Endpoint, heights: Sequence[int]) -> list[BlockData]:
    """Return the blocks of some heights, in their order.

    Each is the height asked for and fits the one below it where that is among them
    (C1). Raises NotYetAvailable for a height the node has no block for, and
    ChainDataError for what must not be stored.
    """
    calls = [Call(_BLOCK, (hex(height), True)) for height in heights]
    raws = await endpoint.batch(calls)
    blocks: list[BlockData] = []
    found = decode_blocks(raws, numbers=heights, method=_BLOCK)
    for height, data in zip(heights, found, strict=True):
        if data is None:
            raise NotYetAvailable(
                f"{endpoint.name} has no block {height} (yet)", block_number=height
            )
        check_block(data)
        blocks.append(data)
    check_links(blocks)
    return blocks


async def fetch_events(
    endpoint: Endpoint, refs: Sequence[BlockRef]
) -> list[BlockEvents]:
    """Return the receipts and logs of some stored blocks, in their order.

    A receipt for each transaction, and logs where the header says that there are
    some (C2, C4). Raises NotYetAvailable where the node does not know the block,
    WithheldData where it gives less than the header says, and InconsistentResponse
    where it gives another block's.
    """
    wanted = [ref for ref in refs if ref.transaction_hashes or may_have_logs(ref)]
    found: dict[int, BlockEvents] = {}
    for ref, events in zip(wanted, await fetch_receipts(endpoint, wanted), strict=True):
        check_events(ref, events)
        found[ref.number] = events
    return [
        found.get(ref.number) or BlockEvents(ref.number, ref.hash, [], [], 0)
        for ref in refs
    ]
