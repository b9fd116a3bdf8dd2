"""The three ways to ask for the receipts of blocks, and which one a node knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from indexer.chain.checks import missing_receipts
from indexer.chain.decode import (
    decode_block_receipts,
    decode_many_receipts,
    is_null,
)
from indexer.chain.endpoint import Endpoint, ReceiptsWay
from indexer.chain.envelope import Call
from indexer.chain.errors_table import Action, classify
from indexer.errors import NotYetAvailable, RpcError
from indexer.rows import BlockEvents, BlockRef

_OF_BLOCK: Final = "eth_getBlockReceipts"
_OF_TRANSACTION: Final = "eth_getTransactionReceipt"

# What nodes answer that take the method's other kind of parameter only.
_INVALID_PARAMS: Final = -32602


async def fetch_receipts(
    endpoint: Endpoint, refs: Sequence[BlockRef]
) -> list[BlockEvents]:
    """Return the receipts and logs the node gives for each block, in their order.

    What a list of receipts leaves out, as some nodes do with Polygon's state sync, is
    asked for by itself; what the node then answers null for stays out. Raises
    NotYetAvailable for a block the node does not know.
    """
    lists = await _lists(endpoint, refs)
    return [
        await _complete(endpoint, ref, listed, found)
        for ref, listed, found in zip(refs, lists, _decoded(refs, lists), strict=True)
    ]


def _decoded(
    refs: Sequence[BlockRef], lists: Sequence[Raw | None]
) -> list[BlockEvents | None]:
    listed = [(raw, ref) for raw, ref in zip(lists, refs, strict=True) if raw]
    events = decode_many_receipts(
        [raw for raw, _ in listed], refs=[ref for _, ref in listed], method=_OF_BLOCK
    )
    known = {ref.number: each for (_, ref), each in zip(listed, events, strict=True)}
    return [known.get(ref.number) for ref in refs]


async def _lists(endpoint: Endpoint, refs: Sequence[BlockRef]) -> list[Raw | None]:
    """Return each block's list of receipts, ``None`` where there is no such list.

    Moves to the next way where the node does not know the one it was asked in, and
    remembers.
    """
    while refs and endpoint.receipts_way is not ReceiptsWay.BY_TRANSACTION:
        way = endpoint.receipts_way
        outcomes = await endpoint.outcomes([_block_call(way, ref) for ref in refs])
        refused = [one for one in outcomes if isinstance(one, RpcError)]
        unknown = next((one for one in refused if _is_unknown(one)), None)
        if unknown is None:
            # An error about one block, such as receipts that do not add up, need not
            # be one about its single receipts.
            return [None if isinstance(one, RpcError) else one for one in outcomes]
        # Another task may have moved on already.
        if endpoint.receipts_way is way:
            endpoint.receipts_way = _next_way(way, unknown)
    return [None] * len(refs)


async def _complete(
    endpoint: Endpoint, ref: BlockRef, listed: Raw | None, found: BlockEvents | None
) -> BlockEvents:
    if listed is None:
        listed = Raw(b"[]")
        missing = list(range(len(ref.transaction_hashes)))
        events = BlockEvents(ref.number, ref.hash, [], [], 0)
    else:
        if found is None:
            raise NotYetAvailable(
                f"{endpoint.name} does not know block {ref.number} with hash "
                f"0x{ref.hash.hex()} (yet)",
                block_number=ref.number,
            )
        events = found
        missing = missing_receipts(ref, events)
    if not missing:
        return events
    calls = [_transaction_call(ref, index) for index in missing]
    singles = [raw for raw in await endpoint.batch(calls) if not is_null(raw)]
    if not singles:
        return events
    # Decoded together, because logs are numbered through the block.
    together = [*msgspec.json.decode(listed, type=list[Raw]), *singles]
    joined = b"[" + b",".join(map(bytes, together)) + b"]"
    return decode_block_receipts(joined, ref=ref, method=_OF_TRANSACTION) or events


def _is_unknown(error: RpcError) -> bool:
    action = classify(None, error.code, error.text)
    return action is Action.UNSUPPORTED or error.code == _INVALID_PARAMS


def _next_way(way: ReceiptsWay, error: RpcError) -> ReceiptsWay:
    if way is ReceiptsWay.BY_HASH and error.code == _INVALID_PARAMS:
        return ReceiptsWay.BY_NUMBER
    return ReceiptsWay.BY_TRANSACTION


def _block_call(way: ReceiptsWay, ref: BlockRef) -> Call:
    if way is ReceiptsWay.BY_HASH:
        return Call(_OF_BLOCK, ("0x" + ref.hash.hex(),))
    return Call(_OF_BLOCK, (hex(ref.number),))


def _transaction_call(ref: BlockRef, index: int) -> Call:
    return Call(_OF_TRANSACTION, ("0x" + ref.transaction_hashes[index].hex(),))
