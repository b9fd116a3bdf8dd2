"""Many blocks at once give what each gives by itself, or fail in the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Raw

from indexer.chain.decode import (
    decode_block,
    decode_block_receipts,
    decode_blocks,
    decode_many_receipts,
    together,
)
from indexer.errors import IndexerError
from tests.support.replies import METHOD, TIMESTAMP, block, encoded, receipts, ref_of

HEIGHTS = [5, 6, 7, 8]
Bend = Callable[[list[Any]], object]
WITHDRAWALS = [
    {"index": hex(index), "validatorIndex": "0x1", "address": None, "amount": "0x2"}
    for index in (3, 4)
]


def chain() -> list[Any]:
    """Four blocks, one of them empty, one with withdrawals."""
    blocks = [block(number, transactions=number - 5, logs=2) for number in HEIGHTS]
    blocks[1]["withdrawals"] = [dict(each) for each in WITHDRAWALS]
    return blocks


def receipt_lists() -> list[Any]:
    return [receipts(number, transactions=number - 5, logs=2) for number in HEIGHTS]


def outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except IndexerError as error:
        return type(error), str(error)


def set_in(name: str, value: object, *, at: int = 2) -> Bend:
    return lambda blocks: blocks[at].update({name: value})


def in_transaction(name: str, value: object) -> Bend:
    return lambda blocks: blocks[3]["transactions"][1].update({name: value})


BENT_BLOCKS: dict[str, Bend] = {
    "as usual": lambda _: None,
    "a block is null": lambda blocks: blocks.__setitem__(1, None),
    "another number": set_in("number", "0x9"),
    "no number": set_in("number", None),
    "hash in capitals": set_in("hash", "0x" + "AB" * 32),
    "a field of the chain's own": set_in("l1BlockNumber", "0x10"),
    "a field of the transaction's own": in_transaction("isSystemTx", True),
    "no timestamp": set_in("timestamp", None),
    "a timestamp that is no time": set_in("timestamp", "0xffffffffffffffff"),
    "a bad hash": set_in("parentHash", "0x12"),
    "the transaction's time": in_transaction("blockTimestamp", hex(TIMESTAMP)),
    "another time": in_transaction("blockTimestamp", hex(TIMESTAMP + 1)),
    "no time": in_transaction("blockTimestamp", None),
    "of another block": in_transaction("blockHash", "0x" + "00" * 32),
    "of a block in capitals": in_transaction("blockHash", "0xB1" + f"{8:062x}"),
    "of no block": lambda blocks: blocks[3]["transactions"][1].pop("blockHash"),
    "of another height": in_transaction("blockNumber", "0x7"),
    "a twin": in_transaction("transactionIndex", "0x0"),
    "a gap": in_transaction("transactionIndex", "0x7"),
    "out of order": lambda blocks: blocks[3]["transactions"].reverse(),
    "a bad value": in_transaction("value", "0x"),
    "an access list": in_transaction("accessList", [{"address": "0x00"}]),
    "a list over lines": in_transaction("accessList", "\n"),
    "a list with a NUL": in_transaction("accessList", ["\x00"]),
    "withdrawals out of order": lambda blocks: blocks[1]["withdrawals"].reverse(),
    "twin withdrawals": set_in("withdrawals", [WITHDRAWALS[0]] * 2),
}


@pytest.mark.parametrize("bend", BENT_BLOCKS.values(), ids=BENT_BLOCKS)
def test_blocks_together_are_the_blocks_one_by_one(bend: Bend) -> None:
    blocks = chain()
    bend(blocks)
    raws = [Raw(encoded(each)) for each in blocks]

    def singly() -> object:
        return [
            decode_block(raw, number=number, method=METHOD)
            for raw, number in zip(raws, HEIGHTS, strict=True)
        ]

    expected = outcome(singly)
    assert outcome(lambda: decode_blocks(raws, numbers=HEIGHTS, method=METHOD)) == (
        expected
    )


def in_receipt(name: str, value: object) -> Bend:
    return lambda lists: lists[3][1].update({name: value})


def in_log(name: str, value: object) -> Bend:
    return lambda lists: lists[2][0]["logs"][1].update({name: value})


BENT_RECEIPTS: dict[str, Bend] = {
    "as usual": lambda _: None,
    "a list is null": lambda lists: lists.__setitem__(1, None),
    "a field of the chain's own": in_receipt("l1Fee", "0x1"),
    "of another block": in_receipt("blockHash", "0x" + "00" * 32),
    "of another height": in_receipt("blockNumber", "0x1"),
    "one is withheld": lambda lists: lists[3].pop(0),
    "out of order": lambda lists: lists[3].reverse(),
    "a twin": in_receipt("transactionIndex", "0x0"),
    "a bad status": in_receipt("status", "yes"),
    "a removed log": in_log("removed", True),
    "a log of nothing": in_log("removed", None),
    "a log of another block": in_log("blockHash", "0x" + "00" * 32),
    "a log of another transaction": in_log("transactionHash", "0x" + "00" * 32),
    "a log of another index": in_log("transactionIndex", "0x1"),
    "a log numbered otherwise": in_log("logIndex", "0x9"),
    "a log's time": in_log("blockTimestamp", hex(TIMESTAMP)),
    "a log's other time": in_log("blockTimestamp", hex(TIMESTAMP + 1)),
    "no topics": in_log("topics", []),
    "a bad topic": in_log("topics", ["0x12"]),
    "five topics": in_log("topics", ["0x" + "00" * 32] * 5),
    "a field of the log's own": in_log("logType", "x"),
}


@pytest.mark.parametrize("bend", BENT_RECEIPTS.values(), ids=BENT_RECEIPTS)
@pytest.mark.parametrize("timed", [True, False])
def test_receipts_together_are_the_receipts_one_by_one(bend: Bend, timed: bool) -> None:
    refs = [ref_of(each) for each in chain()]
    if not timed:
        refs[1] = refs[1]._replace(timestamp=None)
    lists = receipt_lists()
    bend(lists)
    raws = [Raw(encoded(each)) for each in lists]

    def singly() -> object:
        return [
            decode_block_receipts(raw, ref=ref, method=METHOD)
            for raw, ref in zip(raws, refs, strict=True)
        ]

    expected = outcome(singly)
    assert outcome(lambda: decode_many_receipts(raws, refs=refs, method=METHOD)) == (
        expected
    )


def test_what_is_as_usual_is_not_decoded_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("decode_block", "decode_block_receipts"):
        monkeypatch.delattr(together, name)
    blocks = chain()
    refs = [ref_of(each) for each in blocks]
    found = decode_blocks(
        [Raw(encoded(each)) for each in blocks], numbers=HEIGHTS, method=METHOD
    )
    assert [len(each.transactions) for each in found if each] == [0, 1, 2, 3]
    events = decode_many_receipts(
        [Raw(encoded(each)) for each in receipt_lists()], refs=refs, method=METHOD
    )
    assert [len(each.logs) for each in events if each] == [0, 2, 2, 2]
