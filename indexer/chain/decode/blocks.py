"""Blocks with their transactions and withdrawals, and headers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, Protocol, TypeVar

import msgspec
from msgspec import Raw

from indexer.chain.decode.failures import NOT_DECODABLE, bad_field, bad_reply
from indexer.chain.decode.levels import BadField, Level, Reply
from indexer.chain.decode.objects import (
    BIG,
    BLOCK,
    HASH,
    HEADER,
    TRANSACTION,
    UINT256_QUANTITY,
    WITHDRAWAL,
)
from indexer.chain.decode.repeats import confirm, keep_other_times
from indexer.errors import InconsistentResponse, MalformedResponse
from indexer.rows import BlockData, BlockRow, TransactionRow, WithdrawalRow

R = TypeVar("R", bound=tuple[Any, ...])


class _BlockReply(Protocol):
    number: str
    transactions: list[Any]
    withdrawals: list[Any] | None


# 9999-12-31T23:59:59Z, the last second both datetime and any reader can show.
LAST_SECOND: Final = 253_402_300_799

_BLOCKS: Final[Reply[_BlockReply]] = Reply(BLOCK, many=False)
_HEADERS: Final[Reply[_BlockReply]] = Reply(HEADER, many=False)


def is_null(raw: bytes | Raw) -> bool:
    """Tell whether a result is JSON null: nothing there (yet)."""
    view = memoryview(raw)
    return len(view) == 4 and bytes(view) == b"null"


def rows_of(row: type[R], columns: Iterable[Iterable[Any]]) -> list[R]:
    """Turn columns in the row's field order into rows."""
    # _make is a Python function; tuple.__new__ costs half of it per row.
    return list(map(partial(tuple.__new__, row), zip(*columns, strict=False)))


def decode_blocks_reply(raw: bytes | Raw) -> Any:  # noqa: ANN401 - a struct made at run time
    """Return the struct of one block; raises what is in NOT_DECODABLE."""
    return _BLOCKS.decode(raw)


def decode_quantity(raw: bytes | Raw, *, method: str) -> int:
    """Decode a result that is one number; raises MalformedResponse."""
    try:
        return UINT256_QUANTITY.one(msgspec.json.decode(raw, type=str))
    except (*NOT_DECODABLE, ValueError) as error:
        raise MalformedResponse(method, "result", None, str(error)) from None


def decode_block(
    raw: bytes | Raw, *, number: int | None, method: str
) -> BlockData | None:
    """Decode a block asked for with its full transactions.

    Returns ``None`` for null; rows in index order. Raises MalformedResponse for a
    field that cannot be what it is said to be, InconsistentResponse for a block of
    another ``number`` and for parts that contradict each other.
    """
    if is_null(raw):
        return None
    try:
        reply = _BLOCKS.decode(raw)
    except NOT_DECODABLE as error:
        raise bad_reply(error, raw, method, number) from None
    block, seconds = _block_row(BLOCK, reply, number=number, method=method)
    transactions = _transactions(reply.transactions, block, seconds, method)
    withdrawals = _withdrawals(reply.withdrawals or [], block.number, method)
    return BlockData(block, transactions, withdrawals, len(memoryview(raw)))


def decode_header(
    raw: bytes | Raw, *, number: int | None, method: str
) -> BlockRow | None:
    """Decode the header of a block asked for without its transactions.

    Returns ``None`` for null. Raises as :func:`decode_block`.
    """
    if is_null(raw):
        return None
    try:
        reply = _HEADERS.decode(raw)
    except NOT_DECODABLE as error:
        raise bad_reply(error, raw, method, number) from None
    return _block_row(HEADER, reply, number=number, method=method)[0]


def _block_row(
    level: Level, reply: _BlockReply, *, number: int | None, method: str
) -> tuple[BlockRow, int | None]:
    """Return the row and the node's timestamp, which may not be a time."""
    try:
        columns, _, extras = level.parse([reply])
    except BadField as error:
        known = number if number is not None else _number_of(reply)
        raise bad_field(error, "", method, known) from None
    seconds = columns[3][0]
    time: datetime | None = None
    if seconds is not None:
        if seconds <= LAST_SECOND:
            time = datetime.fromtimestamp(seconds, UTC)
        else:
            extras.keep(0, "timestamp", f'"{hex(seconds)}"'.encode())
    columns[3] = (time,)
    [row] = rows_of(BlockRow, [*columns, extras.texts()])
    if number is not None and row.number != number:
        raise InconsistentResponse(
            f"{method}: asked for block {number}, got block {row.number}",
            block_number=number,
        )
    return row, seconds


def _transactions(
    replies: Sequence[Any],
    block: BlockRow,
    seconds: int | None,
    method: str,
) -> list[TransactionRow]:
    if not replies:
        return []
    try:
        columns, others, extras = TRANSACTION.parse(replies)
    except BadField as error:
        place = f"transactions[{error.row}]"
        raise bad_field(error, place, method, block.number) from None
    what = "the block of transaction"
    confirm(others["blockHash"], block.hash, HASH, what=what, block=block.number)
    confirm(others["blockNumber"], block.number, BIG, what=what, block=block.number)
    times = others["blockTimestamp"]
    keep_other_times(times, seconds, UINT256_QUANTITY, extras)
    rows = rows_of(TransactionRow, [repeat(block.number), *columns, extras.texts()])
    return in_order(rows, itemgetter(1), "transaction index", block.number)


def _withdrawals(
    replies: Sequence[Any], block: int, method: str
) -> list[WithdrawalRow]:
    if not replies:
        return []
    try:
        columns, _, extras = WITHDRAWAL.parse(replies)
    except BadField as error:
        place = f"withdrawals[{error.row}]"
        raise bad_field(error, place, method, block) from None
    rows = rows_of(WithdrawalRow, [repeat(block), *columns, extras.texts()])
    return in_order(rows, itemgetter(1), "withdrawal index", block)


def in_order(rows: list[R], key: Callable[[R], int], what: str, block: int) -> list[R]:
    """Return the rows sorted by their key; raises InconsistentResponse for twins."""
    keys = list(map(key, rows))
    if any(map(int.__ge__, keys, keys[1:])):
        rows = sorted(rows, key=key)
        if len(set(keys)) != len(keys):
            raise InconsistentResponse(
                f"block {block} has the same {what} twice", block_number=block
            )
    return rows


def _number_of(reply: _BlockReply) -> int | None:
    try:
        return BIG.one(reply.number)
    except ValueError:
        return None
