"""Many blocks, or the receipts of many blocks, decoded at once.

The same rows as one by one, at a fraction of the cost where blocks are small. Only
replies without anything unusual are taken together; :class:`Unusual` sends the
caller to the single decoders, which know every case and name what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, islice, repeat
from typing import Any, TypeAlias, TypeVar

from msgspec import UNSET, Raw

from indexer.chain.decode.blocks import (
    LAST_SECOND,
    decode_block,
    decode_blocks_reply,
    is_null,
    rows_of,
)
from indexer.chain.decode.failures import NOT_DECODABLE
from indexer.chain.decode.levels import BadField, Level, Parsed
from indexer.chain.decode.objects import BLOCK, LOG, RECEIPT, TRANSACTION, WITHDRAWAL
from indexer.chain.decode.receipts import (
    decode_block_receipts,
    decode_receipts_reply,
    topic_columns,
)
from indexer.rows import (
    BlockData,
    BlockEvents,
    BlockRef,
    BlockRow,
    LogRow,
    ReceiptRow,
    TransactionRow,
    WithdrawalRow,
)

T = TypeVar("T")

# What the replies say of one field, UNSET where they say nothing.
_Texts: TypeAlias = Sequence[Any]


class Unusual(Exception):
    """Something to be looked at block by block."""


def decode_blocks(
    raws: Sequence[Raw], *, numbers: Sequence[int], method: str
) -> list[BlockData | None]:
    """Decode blocks; the same as :func:`decode_block` of each, in order."""
    try:
        return list(_blocks(raws, numbers))
    except (Unusual, BadField, *NOT_DECODABLE):
        return [
            decode_block(raw, number=number, method=method)
            for raw, number in zip(raws, numbers, strict=True)
        ]


def decode_many_receipts(
    raws: Sequence[Raw], *, refs: Sequence[BlockRef], method: str
) -> list[BlockEvents | None]:
    """Decode the receipts of blocks; as :func:`decode_block_receipts` of each."""
    try:
        return list(_receipts(raws, refs))
    except (Unusual, BadField, *NOT_DECODABLE):
        return [
            decode_block_receipts(raw, ref=ref, method=method)
            for raw, ref in zip(raws, refs, strict=True)
        ]


def _blocks(raws: Sequence[Raw], numbers: Sequence[int]) -> Iterator[BlockData]:
    _expect(len(raws) > 1 and not any(map(is_null, raws)))
    replies = [decode_blocks_reply(raw) for raw in raws]
    columns, _, extras = _parsed(BLOCK, replies)
    _expect(list(columns[0]) == list(numbers))
    seconds = columns[3]
    _expect(None not in seconds and max(seconds) <= LAST_SECOND)
    columns[3] = [datetime.fromtimestamp(each, UTC) for each in seconds]
    blocks = rows_of(BlockRow, [*columns, extras.texts()])
    transactions = iter(_transactions(replies, numbers))
    withdrawals = iter(_withdrawals(replies, numbers))
    for raw, reply, block in zip(raws, replies, blocks, strict=True):
        yield BlockData(
            block,
            list(islice(transactions, len(reply.transactions))),
            list(islice(withdrawals, len(reply.withdrawals or ()))),
            len(memoryview(raw)),
        )


def _transactions(
    replies: Sequence[Any], numbers: Sequence[int]
) -> list[TransactionRow]:
    lists = [reply.transactions for reply in replies]
    counts = list(map(len, lists))
    columns, others, extras = _parsed(TRANSACTION, list(_flat(lists)))
    _expect(list(columns[0]) == list(_flat(map(range, counts))))
    _expect_same(others["blockHash"], [reply.hash for reply in replies], counts)
    _expect_same(others["blockNumber"], [reply.number for reply in replies], counts)
    times = [reply.timestamp for reply in replies]
    _expect_same(others["blockTimestamp"], times, counts)
    return rows_of(
        TransactionRow, [_repeated(numbers, counts), *columns, extras.texts()]
    )


def _withdrawals(replies: Sequence[Any], numbers: Sequence[int]) -> list[WithdrawalRow]:
    lists = [reply.withdrawals or [] for reply in replies]
    counts = list(map(len, lists))
    columns, _, extras = _parsed(WITHDRAWAL, list(_flat(lists)))
    heights = list(_repeated(numbers, counts))
    order = list(zip(heights, columns[0], strict=True))
    _expect(all(map(tuple.__lt__, order, order[1:])))
    return rows_of(WithdrawalRow, [heights, *columns, extras.texts()])


def _receipts(raws: Sequence[Raw], refs: Sequence[BlockRef]) -> Iterator[BlockEvents]:
    _expect(len(raws) > 1 and not any(map(is_null, raws)))
    _expect(all(ref.timestamp is not None for ref in refs))
    lists = [decode_receipts_reply(raw) for raw in raws]
    counts = list(map(len, lists))
    replies = list(_flat(lists))
    columns, others, extras = _parsed(RECEIPT, replies)
    _expect(list(columns[0]) == list(_flat(map(range, counts))))
    _expect_same(others["blockHash"], ["0x" + ref.hash.hex() for ref in refs], counts)
    _expect_same(others["blockNumber"], [hex(ref.number) for ref in refs], counts)
    heights = [ref.number for ref in refs]
    receipts = rows_of(
        ReceiptRow, [_repeated(heights, counts), *columns, extras.texts()]
    )
    owned = [len(reply.logs) for reply in replies]
    left = iter(owned)
    logs_of = [sum(islice(left, count)) for count in counts]
    logs = iter(_logs(replies, receipts, refs, owned, logs_of))
    rows = iter(receipts)
    for raw, ref, count, log_count in zip(raws, refs, counts, logs_of, strict=True):
        yield BlockEvents(
            ref.number,
            ref.hash,
            list(islice(rows, count)),
            list(islice(logs, log_count)),
            len(memoryview(raw)),
        )


def _logs(
    replies: Sequence[Any],
    receipts: Sequence[ReceiptRow],
    refs: Sequence[BlockRef],
    owned: Sequence[int],
    logs_of: Sequence[int],
) -> list[LogRow]:
    """Return the logs; ``owned`` counts them by receipt, ``logs_of`` by block."""
    columns, others, extras = _parsed(LOG, list(_flat(r.logs for r in replies)))
    _expect_same(others["blockHash"], ["0x" + ref.hash.hex() for ref in refs], logs_of)
    _expect_same(others["blockNumber"], [hex(ref.number) for ref in refs], logs_of)
    _expect_same(others["blockTimestamp"], list(map(_time, refs)), logs_of)
    _expect(True not in others["removed"])
    hashes = [reply.transactionHash for reply in replies]
    _expect_all(others["transactionHash"], _repeated(hashes, owned))
    indexes = [reply.transactionIndex for reply in replies]
    _expect_all(others["transactionIndex"], _repeated(indexes, owned))
    positions = list(_flat(map(range, logs_of)))
    _expect_all(others["logIndex"], map(hex, positions))
    addresses, datas = columns
    return rows_of(
        LogRow,
        [
            _repeated([ref.number for ref in refs], logs_of),
            positions,
            _repeated([row.transaction_index for row in receipts], owned),
            _repeated([row.transaction_hash for row in receipts], owned),
            addresses,
            *topic_columns(others["topics"]),
            datas,
            extras.texts(),
        ],
    )


def _time(ref: BlockRef) -> str:
    return "" if ref.timestamp is None else hex(int(ref.timestamp.timestamp()))


def _parsed(level: Level, objects: Sequence[Any]) -> Parsed:
    # A field that was learned in between makes another struct.
    _expect(len(set(map(type, objects))) < 2)
    return level.parse(objects)


def _expect(usual: bool) -> None:
    if not usual:
        raise Unusual


def _expect_all(texts: _Texts, expected: Iterable[Any]) -> None:
    """Expect each value; a reply that repeats nothing at all is as good."""
    _expect(texts == tuple(expected) or texts.count(UNSET) == len(texts))


def _expect_same(texts: _Texts, each: Sequence[Any], counts: Sequence[int]) -> None:
    _expect_all(texts, _repeated(each, counts))


def _flat(lists: Iterable[Iterable[T]]) -> Iterator[T]:
    return chain.from_iterable(lists)


def _repeated(values: Iterable[Any], counts: Iterable[int]) -> Iterator[Any]:
    return chain.from_iterable(map(repeat, values, counts))
