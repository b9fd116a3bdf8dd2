"""The three ways to ask for the receipts of blocks, and which one a node knows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, TypeAlias, TypeGuard

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
from indexer.errors import (
    ChainDataError,
    IndexerError,
    NotYetAvailable,
    RangeTooLarge,
    RpcError,
)
from indexer.rows import BlockEvents, BlockRef

# A block's list of receipts as it came, or why there is none, or neither.
_Listed: TypeAlias = Raw | IndexerError | None
_Found: TypeAlias = BlockEvents | IndexerError | None

_OF_BLOCK: Final = "eth_getBlockReceipts"
_OF_TRANSACTION: Final = "eth_getTransactionReceipt"

# What nodes answer that take the method's other kind of parameter only.
_INVALID_PARAMS: Final = -32602


async def try_receipts(
    endpoint: Endpoint, refs: Sequence[BlockRef]
) -> list[BlockEvents | IndexerError]:
    """Return the receipts and logs the node gives for each block, in their order.

    What a list of receipts leaves out, as some nodes do with Polygon's state sync, is
    asked for by itself; what the node then answers null for stays out. In a block's
    place stands what is wrong with it, NotYetAvailable where the node does not know
    it.
    """
    lists = await _lists(endpoint, refs)
    found = _decoded(endpoint, refs, lists)
    incomplete = [
        position
        for position, (ref, events) in enumerate(zip(refs, found, strict=True))
        if not isinstance(events, IndexerError)
        and (events is None or missing_receipts(ref, events))
    ]
    completed = await asyncio.gather(
        *(_complete(endpoint, refs[at], lists[at], found[at]) for at in incomplete)
    )
    for position, events in zip(incomplete, completed, strict=True):
        found[position] = events
    return [
        BlockEvents(ref.number, ref.hash, [], [], 0) if events is None else events
        for ref, events in zip(refs, found, strict=True)
    ]


def _decoded(
    endpoint: Endpoint, refs: Sequence[BlockRef], lists: Sequence[_Listed]
) -> list[_Found]:
    """Return what is in each list, None where there is no list."""
    listed = [(raw, ref) for raw, ref in zip(lists, refs, strict=True) if _is_raw(raw)]
    decoded: list[_Found] = []
    try:
        decoded += decode_many_receipts(
            [raw for raw, _ in listed],
            refs=[ref for _, ref in listed],
            method=_OF_BLOCK,
        )
    except ChainDataError:
        decoded = [_decoded_alone(raw, ref) for raw, ref in listed]
    left = iter(decoded)
    found: list[_Found] = []
    for ref, raw in zip(refs, lists, strict=True):
        if raw is None or isinstance(raw, IndexerError):
            found.append(raw)
            continue
        events = next(left)
        if events is None:
            events = NotYetAvailable(
                f"{endpoint.name} does not know block {ref.number} with hash "
                f"0x{ref.hash.hex()} (yet)",
                block_number=ref.number,
            )
        found.append(events)
    return found


def _is_raw(listed: _Listed) -> TypeGuard[Raw]:
    return listed is not None and not isinstance(listed, IndexerError)


def _decoded_alone(raw: Raw, ref: BlockRef) -> _Found:
    try:
        return decode_block_receipts(raw, ref=ref, method=_OF_BLOCK)
    except ChainDataError as error:
        return error


async def _lists(endpoint: Endpoint, refs: Sequence[BlockRef]) -> list[_Listed]:
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
            # An error about one block, such as receipts that do not add up, or too
            # many bytes of them, need not be one about its single receipts.
            return [
                None if isinstance(one, RpcError | RangeTooLarge) else one
                for one in outcomes
            ]
        # Another task may have moved on already.
        if endpoint.receipts_way is way:
            endpoint.receipts_way = _next_way(way, unknown)
    return [None] * len(refs)


async def _complete(
    endpoint: Endpoint, ref: BlockRef, listed: _Listed, events: _Found
) -> _Found:
    """Ask for the receipts that a list leaves out, or for all without a list."""
    missing = list(range(len(ref.transaction_hashes)))
    if isinstance(events, BlockEvents):
        missing = missing_receipts(ref, events)
    try:
        raws = await endpoint.batch([_transaction_call(ref, at) for at in missing])
        singles = [raw for raw in raws if not is_null(raw)]
        if not singles:
            return events
        # Decoded together, because logs are numbered through the block.
        whole = bytes(listed) if _is_raw(listed) else b"[]"
        together = [*msgspec.json.decode(whole, type=list[Raw]), *singles]
        joined = Raw(b"[" + b",".join(map(bytes, together)) + b"]")
        return decode_block_receipts(joined, ref=ref, method=_OF_TRANSACTION)
    except IndexerError as error:
        return error


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
