"""Write and read the chain tables in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from indexer.db.connection import Connection
from indexer.db.queries import load
from indexer.errors import InconsistentResponse, ReorgDetected, StoredBlockConflict
from indexer.ranges import BlockRange
from indexer.rows import BlockData, BlockEvents, BlockRef, BlockRow
from indexer.store import coverage
from indexer.store.copy import copy_rows
from indexer.store.coverage import NOTHING_CERTAIN, Certainty
from indexer.store.encoded import (
    EncodedBlocks,
    EncodedEvents,
    encode_blocks,
    encode_events,
)

# keccak(rlp("")): the root of a trie without entries.
EMPTY_ROOT = bytes.fromhex(
    "56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"
)
EMPTY_BLOOM = bytes(256)

_QUERIES = load("blocks")
_RANGE_IS_EMPTY = _QUERIES["range_is_empty"]
_EVENTS_ARE_EMPTY = _QUERIES["events_are_empty"]
_DELETE_ORPHANS = _QUERIES["delete_orphans"]
_CONTRADICTED = _QUERIES["contradicted_events"]
_WITH_EVENTS = _QUERIES["heights_with_events"]
_NEIGHBOURS = _QUERIES["neighbours"]
_HASHES = _QUERIES["hashes_in_range"]
_LOCK_HASHES = _QUERIES["lock_hashes_in_range"]
_REFS = _QUERIES["block_refs"]
_HIGHEST = _QUERIES["highest_block"]
_HASH = _QUERIES["block_hash"]
_STORED_RANGES = _QUERIES["stored_ranges"]
_WITHOUT_EVENTS = _QUERIES["blocks_without_events"]


class StoredBlock(NamedTuple):
    """A height and the hash stored there."""

    number: int
    hash: bytes


async def range_is_empty(conn: Connection, blocks: BlockRange) -> bool:
    """Tell whether no chain table has a row in the range yet."""
    row = await _RANGE_IS_EMPTY.row(conn, first=blocks.first, last=blocks.last)
    return row is not None and bool(row[0])


async def events_are_empty(conn: Connection, blocks: BlockRange) -> bool:
    """Tell whether no receipt or log of the range is stored yet."""
    row = await _EVENTS_ARE_EMPTY.row(conn, first=blocks.first, last=blocks.last)
    return row is not None and bool(row[0])


async def write_blocks(
    conn: Connection,
    *,
    data: Sequence[BlockData] | EncodedBlocks,
    fresh: bool,
    certainty: Certainty = NOTHING_CERTAIN,
    fits_above: bool = True,
) -> int:
    """Store consecutive blocks with their transactions and withdrawals.

    Return how many blocks were not there before. ``certainty`` says what of the data
    is proven; of rows that were there before it says nothing. The block stored above
    them need not fit them where ``fits_above`` is false. Runs in the caller's
    transaction.

    Raises StoredBlockConflict where a height is stored with another hash,
    ReorgDetected where the block below is not the parent, RangeNotFresh where
    ``fresh`` was wrong (the transaction is then lost).
    """
    chunk = data if isinstance(data, EncodedBlocks) else await encode_blocks(data)
    blocks = chunk.range
    if not fresh:
        present = await _check_stored_hashes(conn, chunk.headers)
        certainty = certainty.without(present)
        await _DELETE_ORPHANS.run(conn, first=blocks.first, last=blocks.last)
    await _check_neighbours(conn, chunk.headers, fits_above=fits_above)
    written = await copy_rows(conn, chunk.blocks, fresh=fresh)
    await copy_rows(conn, chunk.transactions, fresh=fresh)
    await copy_rows(conn, chunk.withdrawals, fresh=fresh)
    if not fresh:
        # Somebody else may have stored a height between the first look and the
        # insert, which then did nothing for it.
        await _check_stored_hashes(conn, chunk.headers)
    await coverage.extend(conn, dataset="blocks", blocks=blocks, certainty=certainty)
    return written


async def _check_neighbours(
    conn: Connection, headers: Sequence[BlockRow], *, fits_above: bool
) -> None:
    first, last = headers[0], headers[-1]
    rows = await _NEIGHBOURS.rows(conn, below=first.number - 1, above=last.number + 1)
    for number, stored_hash, parent_hash in rows:
        if number < first.number and stored_hash != first.parent_hash:
            raise ReorgDetected(first.number, stored_hash, first.parent_hash)
        if fits_above and number > last.number and parent_hash != last.hash:
            raise InconsistentResponse(
                f"block {number} is stored with parent 0x{parent_hash.hex()}, but the "
                f"node gives block {last.number} as 0x{last.hash.hex()}; nothing was "
                f"overwritten. Run `indexer verify --from {last.number} --to "
                f"{number + 1} --repair`",
                block_number=last.number,
            )


async def _check_stored_hashes(
    conn: Connection, headers: Sequence[BlockRow]
) -> list[int]:
    """Return which of the heights are stored; raise where one is another block."""
    offered = {each.number: each.hash for each in headers}
    rows = await _HASHES.rows(conn, first=min(offered), last=max(offered))
    for number, stored in rows:
        if number in offered and stored != offered[number]:
            raise StoredBlockConflict(number, stored, offered[number])
    return [number for number, _ in rows]


async def write_events(
    conn: Connection,
    *,
    data: Sequence[BlockEvents] | EncodedEvents,
    fresh: bool,
    final: bool,
    certainty: Certainty = NOTHING_CERTAIN,
) -> int:
    """Store the receipts and logs of blocks; return how many logs were new.

    ``certainty`` says what of the data is proven; of heights that had receipts or
    logs before it says nothing.

    The block row of every height must have the hash that the receipts name (C2).
    Above the finalized height (``final`` false) it is held under a row lock until
    the caller's transaction ends, so that no reorganisation can slip in between;
    below it nothing replaces blocks, and 10,000 row locks would be 6 MB of WAL.

    Raises InconsistentResponse where a block is gone or another, or where other
    receipts or logs are stored for it already; RangeNotFresh.
    """
    chunk = data if isinstance(data, EncodedEvents) else await encode_events(data)
    blocks = chunk.range
    query = _HASHES if final else _LOCK_HASHES
    rows = await query.rows(conn, first=blocks.first, last=blocks.last)
    stored: dict[int, bytes] = dict(rows)
    for number, named in chunk.hashes.items():
        if stored.get(number) != named:
            raise InconsistentResponse(
                f"the receipts of block {number} belong to 0x{named.hex()}, "
                "which is not the block stored at that height (any more)",
                block_number=number,
            )
    if not fresh:
        present = await _WITH_EVENTS.rows(conn, first=blocks.first, last=blocks.last)
        certainty = certainty.without([row[0] for row in present])
    await copy_rows(conn, chunk.receipts, fresh=fresh)
    written = await copy_rows(conn, chunk.logs, fresh=fresh)
    if not fresh:
        await _check_stored_events(conn, blocks)
    await coverage.extend(conn, dataset="events", blocks=blocks, certainty=certainty)
    return written


async def _check_stored_events(conn: Connection, blocks: BlockRange) -> None:
    row = await _CONTRADICTED.row(conn, first=blocks.first, last=blocks.last)
    if row is not None:
        raise InconsistentResponse(
            f"the receipts or logs stored for block {row[0]} are not those the node "
            f"gives; nothing was overwritten. Run `indexer verify --from {row[0]} "
            f"--to {row[0] + 1} --repair`",
            block_number=row[0],
        )


async def block_refs(conn: Connection, blocks: BlockRange) -> list[BlockRef]:
    """Return the stored blocks of a range, in order, with their transaction hashes.

    Raises InconsistentResponse where two neighbours that are stored do not link.
    """
    rows = await _REFS.rows(conn, first=blocks.first, last=blocks.last)
    for below, above in pairwise(rows):
        if above[0] == below[0] + 1 and above[2] != below[1]:
            raise InconsistentResponse(
                f"stored block {above[0]} names 0x{above[2].hex()} as its parent, but "
                f"block {below[0]} is stored as 0x{below[1].hex()}. Run `indexer "
                f"verify --from {below[0]} --to {above[0] + 1} --repair`",
                block_number=above[0],
            )
    return [
        BlockRef(number, hash_, timestamp, root, bloom, tuple(hashes))
        for number, hash_, _, timestamp, root, bloom, hashes in rows
    ]


async def highest_block(conn: Connection) -> StoredBlock | None:
    """Return the highest stored block."""
    row = await _HIGHEST.row(conn)
    return None if row is None else StoredBlock(row[0], row[1])


async def hashes(conn: Connection, blocks: BlockRange) -> list[StoredBlock]:
    """Return the stored blocks of a range, in order."""
    rows = await _HASHES.rows(conn, first=blocks.first, last=blocks.last)
    return [StoredBlock(*row) for row in rows]


async def block_hash(conn: Connection, number: int) -> bytes | None:
    """Return the hash stored at a height."""
    row = await _HASH.row(conn, number=number)
    return None if row is None else bytes(row[0])


async def stored_ranges(conn: Connection, blocks: BlockRange) -> list[BlockRange]:
    """Return the maximal runs of stored heights within a range, from the rows."""
    rows = await _STORED_RANGES.rows(conn, first=blocks.first, last=blocks.last)
    return [BlockRange(first, last) for first, last in rows]


async def without_events(conn: Connection, blocks: BlockRange) -> list[int]:
    """Return stored heights of a range whose receipts or logs are not all there."""
    rows = await _WITHOUT_EVENTS.rows(
        conn,
        first=blocks.first,
        last=blocks.last,
        empty_root=EMPTY_ROOT,
        empty_bloom=EMPTY_BLOOM,
    )
    return [row[0] for row in rows]
