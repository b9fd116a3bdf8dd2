"""Rows back from the tables, as whoever wrote them had them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from indexer.db.connection import Connection
from indexer.db.queries import Query, load
from indexer.ranges import BlockRange
from indexer.rows import (
    BlockData,
    BlockEvents,
    BlockRow,
    LogRow,
    ReceiptRow,
    TransactionRow,
    WithdrawalRow,
)
from indexer.store.tables import (
    BLOCKS,
    LOGS,
    RECEIPTS,
    TRANSACTIONS,
    WITHDRAWALS,
    Table,
)

_QUERIES = load("verify")
_BEGIN = _QUERIES["begin_snapshot"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Stands for what is no whole number or no time: no hash comes out of either.
_NO_NUMBER = -1
_NO_TIME = datetime.max.replace(tzinfo=UTC)

_Row = TypeVar("_Row")
_Column = Sequence[Any]


class StoredRows(NamedTuple):
    """The rows of some heights.

    ``orphans`` says of heights without a block how many rows each table has.
    """

    blocks: list[BlockData]
    events: list[BlockEvents]
    orphans: dict[int, dict[str, int]]
    row_count: int


async def begin_snapshot(conn: Connection) -> None:
    """Make the transaction that was just begun see the tables as of one moment."""
    await _BEGIN.run(conn)


async def read_rows(conn: Connection, heights: BlockRange) -> StoredRows:
    """Return all rows of a range, block by block.

    In a transaction of one snapshot, so that rows are not taken for orphans whose
    block was stored meanwhile.
    """
    blocks = await _read(conn, BLOCKS, BlockRow._make, heights)
    transactions = await _read(conn, TRANSACTIONS, TransactionRow._make, heights)
    withdrawals = await _read(conn, WITHDRAWALS, WithdrawalRow._make, heights)
    receipts = await _read(conn, RECEIPTS, ReceiptRow._make, heights)
    logs = await _read(conn, LOGS, LogRow._make, heights)
    by_height = {
        table.name: _grouped(rows)
        for table, rows in (
            (TRANSACTIONS, transactions),
            (WITHDRAWALS, withdrawals),
            (RECEIPTS, receipts),
            (LOGS, logs),
        )
    }
    data, events = [], []
    for block in blocks:
        own = [rows.pop(block.number, []) for rows in by_height.values()]
        data.append(BlockData(block, own[0], own[1], 0))
        events.append(BlockEvents(block.number, block.hash, own[2], own[3], 0))
    orphans: dict[int, dict[str, int]] = {}
    for name, left in by_height.items():
        for number, rows in left.items():
            orphans.setdefault(number, {})[name] = len(rows)
    count = len(blocks) + len(transactions) + len(withdrawals)
    return StoredRows(data, events, orphans, count + len(receipts) + len(logs))


async def _read(
    conn: Connection,
    table: Table,
    make: Callable[[Iterable[Any]], _Row],
    heights: BlockRange,
) -> list[_Row]:
    query: Query = _QUERIES[f"read_{table.name}"]
    async with conn.cursor(binary=True) as cursor:
        await cursor.execute(
            query.on(conn.schema), {"first": heights.first, "last": heights.last}
        )
        found = await cursor.fetchall()
    if not found:
        return []
    columns: list[_Column] = list(zip(*found, strict=True))
    for index, name in enumerate(table.types):
        convert = _CONVERTERS.get(name)
        if convert is not None and any(value is not None for value in columns[index]):
            columns[index] = convert(columns[index])
    return list(map(make, zip(*columns, strict=True)))


def _grouped(rows: Sequence[Any]) -> dict[int, list[Any]]:
    return {number: list(own) for number, own in groupby(rows, itemgetter(0))}


def _numbers(column: _Column) -> _Column:
    try:
        return [None if value is None else int(value) for value in column]
    except ValueError:
        return [None if value is None else _number(value) for value in column]


def _number(value: str) -> int:
    # A numeric column can hold NaN.
    try:
        return int(value)
    except ValueError:
        return _NO_NUMBER


def _times(column: _Column) -> _Column:
    return [None if value is None else _time(value) for value in column]


def _time(value: str) -> datetime:
    whole, _, fraction = value.partition(".")
    try:
        seconds = int(whole)
        return _EPOCH + timedelta(seconds=seconds, microseconds=int(fraction or 0))
    except (ValueError, OverflowError):
        return _NO_TIME


def _tuples(column: _Column) -> _Column:
    return [None if value is None else tuple(value) for value in column]


_CONVERTERS: dict[str, Callable[[_Column], _Column]] = {
    "numeric": _numbers,
    "timestamptz": _times,
    "bytea[]": _tuples,
}
