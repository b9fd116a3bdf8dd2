"""Fetch blocks, and their receipts and logs, each whole or not at all.

Everything here is asked of the one endpoint that is passed in (C7); whoever calls
turns to another with the whole of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias, TypeVar

from msgspec import Raw

from indexer.chain.checks import check_block, check_events, check_link, may_have_logs
from indexer.chain.decode import decode_block, decode_blocks
from indexer.chain.endpoint import Endpoint
from indexer.chain.envelope import Call
from indexer.chain.receipts import try_receipts
from indexer.chain.turns import SLICE_BYTES, slices, turn
from indexer.errors import ChainDataError, IndexerError, NotYetAvailable
from indexer.rows import BlockData, BlockEvents, BlockRef

_BLOCK: Final = "eth_getBlockByNumber"
# What looking at an empty block takes, as bytes of receipts that take as long.
_BLOCK_BYTES: Final = 1024

# Raises ChainDataError where a block is not what its own hash commits to.
ProveBlock: TypeAlias = Callable[[BlockData], None]
ProveEvents: TypeAlias = Callable[[BlockRef, BlockEvents], None]

T = TypeVar("T")


async def fetch_blocks(
    endpoint: Endpoint, heights: Sequence[int], *, prove: ProveBlock | None = None
) -> list[BlockData]:
    """Return the blocks of some heights, in their order.

    Each is the height asked for and fits the one below it where that is among them
    (C1). Raises NotYetAvailable for a height the node has no block for, and
    ChainDataError for what must not be stored.
    """
    return _all_of(await try_blocks(endpoint, heights, prove=prove))


async def try_blocks(
    endpoint: Endpoint, heights: Sequence[int], *, prove: ProveBlock | None = None
) -> list[BlockData | IndexerError]:
    """Do as :func:`fetch_blocks`, with what is wrong with a block in its place.

    Where two do not link, nobody knows which is wrong, so both are.
    """
    calls = [Call(_BLOCK, (hex(height), True)) for height in heights]
    raws = await endpoint.outcomes(calls)
    found: list[BlockData | IndexerError] = []
    for part in slices(raws):
        await turn()
        decoded = _decoded(heights[part], raws[part])
        found += [
            _checked(endpoint, height, data, prove)
            for height, data in zip(heights[part], decoded, strict=True)
        ]
    for at, (below, above) in enumerate(pairwise(found)):
        if isinstance(below, BlockData) and isinstance(above, BlockData):
            try:
                check_link(below, above)
            except ChainDataError as error:
                found[at] = found[at + 1] = error
    return found


def _decoded(
    heights: Sequence[int], raws: Sequence[Raw | IndexerError]
) -> list[BlockData | IndexerError | None]:
    good = [
        (raw, height)
        for raw, height in zip(raws, heights, strict=True)
        if not isinstance(raw, IndexerError)
    ]
    try:
        decoded: list[BlockData | IndexerError | None] = []
        decoded += decode_blocks(
            [raw for raw, _ in good], numbers=[at for _, at in good], method=_BLOCK
        )
    except ChainDataError:
        decoded = [_decoded_alone(raw, height) for raw, height in good]
    left = iter(decoded)
    return [raw if isinstance(raw, IndexerError) else next(left) for raw in raws]


def _decoded_alone(raw: Raw, height: int) -> BlockData | IndexerError | None:
    try:
        return decode_block(raw, number=height, method=_BLOCK)
    except ChainDataError as error:
        return error


def _checked(
    endpoint: Endpoint,
    height: int,
    data: BlockData | IndexerError | None,
    prove: ProveBlock | None,
) -> BlockData | IndexerError:
    if data is None:
        return NotYetAvailable(
            f"{endpoint.name} has no block {height} (yet)", block_number=height
        )
    if isinstance(data, IndexerError):
        return data
    try:
        check_block(data)
        if prove is not None:
            prove(data)
    except ChainDataError as error:
        return error
    return data


async def fetch_events(
    endpoint: Endpoint, refs: Sequence[BlockRef], *, prove: ProveEvents | None = None
) -> list[BlockEvents]:
    """Return the receipts and logs of some stored blocks, in their order.

    A receipt for each transaction, and logs where the header says that there are
    some (C2, C4). Raises NotYetAvailable where the node does not know the block,
    WithheldData where it gives less than the header says, and InconsistentResponse
    where it gives another block's.
    """
    return _all_of(await try_events(endpoint, refs, prove=prove))


async def try_events(
    endpoint: Endpoint, refs: Sequence[BlockRef], *, prove: ProveEvents | None = None
) -> list[BlockEvents | IndexerError]:
    """Do as :func:`fetch_events`, with what is wrong with a block in its place."""
    wanted = [ref for ref in refs if ref.transaction_hashes or may_have_logs(ref)]
    received = iter(await try_receipts(endpoint, wanted))
    found: list[BlockEvents | IndexerError] = []
    undone = 0
    for ref in refs:
        events: BlockEvents | IndexerError = BlockEvents(
            ref.number, ref.hash, [], [], 0
        )
        if ref.transaction_hashes or may_have_logs(ref):
            events = next(received)
        if not isinstance(events, IndexerError):
            undone += _BLOCK_BYTES + events.raw_bytes
            events = _checked_events(ref, events, prove)
        found.append(events)
        if undone > SLICE_BYTES:
            undone = 0
            await turn()
    return found


def _checked_events(
    ref: BlockRef, events: BlockEvents, prove: ProveEvents | None
) -> BlockEvents | IndexerError:
    try:
        check_events(ref, events)
        if prove is not None:
            prove(ref, events)
    except ChainDataError as error:
        return error
    return events


def _all_of(found: Sequence[T | IndexerError]) -> list[T]:
    whole: list[T] = []
    for each in found:
        if isinstance(each, IndexerError):
            raise each
        whole.append(each)
    return whole
