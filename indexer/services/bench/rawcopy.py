"""The yardstick: COPY of rows that are encoded already, and what each stage costs.

The very same rows, into the same tables with the same indexes in place, in one
transaction from one connection. Nothing that indexes a chain into PostgreSQL row by
row can be faster than that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from psycopg import sql

from indexer.chain.checks import check_block, check_events, check_links, may_have_logs
from indexer.chain.decode import decode_blocks, decode_many_receipts
from indexer.chain.endpoint import Endpoint
from indexer.chain.envelope import Call
from indexer.db.connection import Connection, Database
from indexer.errors import MalformedResponse
from indexer.rows import BlockData, BlockEvents, BlockRef
from indexer.store.copy import copy_statement
from indexer.store.encode import SIGNATURE, TRAILER, encode_rows
from indexer.store.tables import (
    BLOCKS,
    LOGS,
    RECEIPTS,
    TRANSACTIONS,
    WITHDRAWALS,
    Table,
)

_T = TypeVar("_T")

# How many heights are asked for, decoded and encoded at a time.
_PART = {"dense": 4, "sparse": 1_000}


@dataclass
class Stages:
    """CPU seconds that this process spent on each stage, measured alone."""

    fetch: float = 0.0
    decode: float = 0.0
    check: float = 0.0
    encode: float = 0.0
    send: float = 0.0

    @contextmanager
    def spent_on(self, stage: str) -> Iterator[None]:
        """Add the CPU time of the body to a stage."""
        start = time.process_time()
        try:
            yield
        finally:
            spent = time.process_time() - start
            setattr(self, stage, getattr(self, stage) + spent)


class Encoded(NamedTuple):
    """A table's rows as COPY data, in pieces."""

    table: Table
    pieces: list[bytes]


@dataclass
class Prepared:
    """The rows of a range, encoded, and what it took to get there."""

    blocks: int
    json_bytes: int = 0
    rows: int = 0
    tables: dict[str, Encoded] = field(default_factory=dict)
    stages: Stages = field(default_factory=Stages)

    @property
    def copy_bytes(self) -> int:
        """How much COPY data there is."""
        return sum(len(p) for each in self.tables.values() for p in each.pieces)

    def add(self, table: Table, rows: Sequence[tuple[object, ...]]) -> None:
        """Encode rows of a table."""
        if rows:
            encoded = self.tables.setdefault(table.name, Encoded(table, []))
            encoded.pieces.append(encode_rows(table.types, rows))
            self.rows += len(rows)


async def prepare(endpoint: Endpoint, *, blocks: int, profile: str) -> Prepared:
    """Fetch, decode and encode the first ``blocks`` heights, timing every stage."""
    prepared = Prepared(blocks)
    step = _PART.get(profile, 50)
    for first in range(0, blocks, step):
        await _prepare_part(endpoint, prepared, range(first, min(blocks, first + step)))
    return prepared


async def _prepare_part(endpoint: Endpoint, prepared: Prepared, heights: range) -> None:
    stages = prepared.stages
    calls = [Call("eth_getBlockByNumber", (hex(each), True)) for each in heights]
    # Once before the clock runs, so that the node makes its blocks off it.
    await endpoint.batch(calls)
    with stages.spent_on("fetch"):
        raws = await endpoint.batch(calls)
    with stages.spent_on("decode"):
        data = [
            _there(found, number)
            for found, number in zip(
                decode_blocks(raws, numbers=heights, method=calls[0].method),
                heights,
                strict=True,
            )
        ]
    with stages.spent_on("check"):
        for each in data:
            check_block(each)
        check_links(data)
    refs = [_ref(each) for each in data]
    wanted = [ref for ref in refs if ref.transaction_hashes or may_have_logs(ref)]
    asked = [Call("eth_getBlockReceipts", ("0x" + ref.hash.hex(),)) for ref in wanted]
    with stages.spent_on("fetch"):
        replies = await endpoint.batch(asked) if asked else []
    with stages.spent_on("decode"):
        events = [
            _there(found, ref.number)
            for found, ref in zip(
                decode_many_receipts(
                    replies, refs=wanted, method="eth_getBlockReceipts"
                ),
                wanted,
                strict=True,
            )
        ]
    with stages.spent_on("check"):
        for ref, found in zip(wanted, events, strict=True):
            check_events(ref, found)
    prepared.json_bytes += sum(each.raw_bytes for each in data)
    prepared.json_bytes += sum(each.raw_bytes for each in events)
    with stages.spent_on("encode"):
        _encode(prepared, data, events)


def _encode(
    prepared: Prepared, data: list[BlockData], events: list[BlockEvents]
) -> None:
    prepared.add(BLOCKS, [each.block for each in data])
    prepared.add(TRANSACTIONS, [row for each in data for row in each.transactions])
    prepared.add(WITHDRAWALS, [row for each in data for row in each.withdrawals])
    prepared.add(RECEIPTS, [row for each in events for row in each.receipts])
    prepared.add(LOGS, [row for each in events for row in each.logs])


def _there(found: _T | None, number: int) -> _T:
    if found is None:
        raise MalformedResponse("eth_getBlockByNumber", "result", number, "is null")
    return found


def _ref(data: BlockData) -> BlockRef:
    block = data.block
    return BlockRef(
        block.number,
        block.hash,
        block.timestamp,
        block.receipts_root,
        block.logs_bloom,
        tuple(row.hash for row in data.transactions),
    )


async def raw_copy(
    database: Database,
    prepared: Prepared,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> float:
    """COPY everything in one transaction; return the seconds it took."""
    async with database.connection() as conn:
        start = clock()
        async with conn.transaction():
            for encoded in prepared.tables.values():
                with prepared.stages.spent_on("send"):
                    await _copy(conn, encoded)
        return clock() - start


async def _copy(conn: Connection, encoded: Encoded) -> None:
    target = sql.Identifier(conn.schema, encoded.table.name)
    statement = copy_statement(target, encoded.table)
    async with conn.cursor() as cursor, cursor.copy(statement) as copy:
        await copy.write(SIGNATURE)
        for piece in encoded.pieces:
            await copy.write(piece)
        await copy.write(TRAILER)
