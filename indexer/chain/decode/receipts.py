"""Receipts and their logs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat, zip_longest
from operator import itemgetter
from typing import Any, Final, Protocol

import msgspec
from msgspec import UNSET, Raw

from indexer.chain.decode.blocks import in_order, is_null, rows_of
from indexer.chain.decode.extras import Extras
from indexer.chain.decode.failures import NOT_DECODABLE, bad_field, bad_reply
from indexer.chain.decode.kinds import BadValue
from indexer.chain.decode.levels import BadField, Parsed, Reply
from indexer.chain.decode.objects import (
    BIG,
    HASH,
    INT,
    LOG,
    RECEIPT,
    TOPIC,
    UINT256_QUANTITY,
)
from indexer.chain.decode.repeats import Repeated, confirm, differing, keep_other_times
from indexer.errors import InconsistentResponse
from indexer.rows import BlockEvents, BlockRef, LogRow, ReceiptRow


class _ReceiptReply(Protocol):
    transactionIndex: str
    transactionHash: str
    logs: list[Any]


_RECEIPTS: Final[Reply[list[_ReceiptReply]]] = Reply(RECEIPT, many=True)


def decode_receipts_reply(raw: bytes | Raw) -> list[Any]:
    """Return the structs of a block's receipts; raises what is in NOT_DECODABLE."""
    return _RECEIPTS.decode(raw)


def decode_block_receipts(
    raw: bytes | Raw, *, ref: BlockRef, method: str
) -> BlockEvents | None:
    """Decode a block's receipts, a JSON list of them, and their logs.

    Returns ``None`` for null; rows in index order. Whether the list is complete is
    not looked at here. Raises MalformedResponse, and InconsistentResponse for what
    names another block or transaction, or says it was removed.
    """
    if is_null(raw):
        return None
    try:
        replies = _RECEIPTS.decode(raw)
    except NOT_DECODABLE as error:
        raise bad_reply(error, raw, method, ref.number) from None
    columns, others, extras = _parsed(replies, ref, method)
    if list(columns[0]) != sorted(columns[0]):
        # Logs are numbered in the order of their transactions, whatever the list's.
        replies.sort(key=lambda reply: INT.one(reply.transactionIndex))
        columns, others, extras = _parsed(replies, ref, method)
    what = "the block of receipt"
    confirm(others["blockHash"], ref.hash, HASH, what=what, block=ref.number)
    confirm(others["blockNumber"], ref.number, BIG, what=what, block=ref.number)
    receipts = rows_of(ReceiptRow, [repeat(ref.number), *columns, extras.texts()])
    receipts = in_order(receipts, itemgetter(1), "receipt index", ref.number)
    logs = _logs(replies, receipts, ref, method)
    return BlockEvents(ref.number, ref.hash, receipts, logs, len(memoryview(raw)))


def _parsed(replies: Sequence[_ReceiptReply], ref: BlockRef, method: str) -> Parsed:
    try:
        return RECEIPT.parse(replies)
    except BadField as error:
        raise bad_field(error, f"[{error.row}]", method, ref.number) from None


def _logs(
    replies: Sequence[_ReceiptReply],
    receipts: Sequence[ReceiptRow],
    ref: BlockRef,
    method: str,
) -> list[LogRow]:
    counts = [len(reply.logs) for reply in replies]
    try:
        parsed = LOG.parse(list(chain.from_iterable(r.logs for r in replies)))
        topics = topic_columns(parsed.others["topics"])
    except BadField as error:
        place = _log_path(counts, error.row)
        raise bad_field(error, place, method, ref.number) from None
    _confirm_block(parsed, ref)
    _confirm_owners(parsed, replies, receipts, counts)
    indexes = _log_indexes(parsed.others["logIndex"], parsed.extras)
    owners = list(chain.from_iterable(map(repeat, receipts, counts)))
    addresses, datas = parsed.columns
    return rows_of(
        LogRow,
        [
            repeat(ref.number),
            indexes,
            [owner.transaction_index for owner in owners],
            [owner.transaction_hash for owner in owners],
            addresses,
            *topics,
            datas,
            parsed.extras.texts(),
        ],
    )


def _log_path(counts: Sequence[int], row: int) -> str:
    receipt = 0
    while row >= counts[receipt]:
        row -= counts[receipt]
        receipt += 1
    return f"[{receipt}].logs[{row}]"


def topic_columns(lists: Sequence[Sequence[str]]) -> list[Sequence[bytes | None]]:
    """Return the four topic columns."""
    columns: list[Sequence[bytes | None]] = []
    for position, texts in enumerate(zip_longest(*lists)):
        try:
            columns.append(TOPIC.column(texts))
        except BadValue as error:
            name = f"topics[{position}]"
            raise BadField(name, error.index, error.problem) from None
    nothing = [None] * len(lists)
    return columns + [nothing] * (4 - len(columns))


def _confirm_owners(
    parsed: Parsed,
    replies: Sequence[_ReceiptReply],
    receipts: Sequence[ReceiptRow],
    counts: Sequence[int],
) -> None:
    """Check that each log names the transaction of the receipt it is in."""
    named: Repeated = parsed.others["transactionHash"]
    numbered: Repeated = parsed.others["transactionIndex"]
    hashes = [reply.transactionHash for reply in replies]
    indexes = [reply.transactionIndex for reply in replies]
    if _repeated(hashes, counts) == named and _repeated(indexes, counts) == numbered:
        return
    first = 0
    for row, count in zip(receipts, counts, strict=True):
        mine = slice(first, first + count)
        what = f"the transaction of receipt {row.transaction_index}'s log"
        block = row.block_number
        confirm(named[mine], row.transaction_hash, HASH, what=what, block=block)
        index = row.transaction_index
        confirm(numbered[mine], index, INT, what=what, block=block)
        first += count


def _repeated(texts: Sequence[str], counts: Sequence[int]) -> tuple[str, ...]:
    return tuple(chain.from_iterable(map(repeat, texts, counts)))


def _confirm_block(parsed: Parsed, ref: BlockRef) -> None:
    others = parsed.others
    what = "the block of log"
    confirm(others["blockHash"], ref.hash, HASH, what=what, block=ref.number)
    confirm(others["blockNumber"], ref.number, BIG, what=what, block=ref.number)
    if any(removed is True for removed in others["removed"]):
        raise InconsistentResponse(
            f"block {ref.number} has a log that says it was removed: it belongs to "
            "another block",
            block_number=ref.number,
        )
    seconds = None if ref.timestamp is None else int(ref.timestamp.timestamp())
    keep_other_times(others["blockTimestamp"], seconds, UINT256_QUANTITY, parsed.extras)


def _log_indexes(texts: Repeated, extras: Extras) -> range:
    """Number the logs by position; a node that numbers otherwise is kept beside."""
    positions = range(len(texts))
    if texts != tuple(map(hex, positions)) and any(
        differing((text,), position, INT) for position, text in enumerate(texts)
    ):
        for position, text in enumerate(texts):
            if text is not UNSET:
                extras.keep(position, "logIndex", msgspec.json.encode(text))
    return positions
