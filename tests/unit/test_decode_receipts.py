"""Receipts and logs: whose they are, and how logs are numbered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from indexer.chain.decode import decode_block_receipts
from indexer.errors import InconsistentResponse, MalformedResponse
from indexer.rows import BlockEvents
from tests.support.replies import (
    METHOD,
    TIMESTAMP,
    block,
    encoded,
    log,
    receipt,
    receipts,
    ref_of,
)

REF = ref_of(block(7, transactions=3, logs=2))


def _decode(replies: list[dict[str, Any]]) -> BlockEvents:
    events = decode_block_receipts(encoded(replies), ref=REF, method=METHOD)
    assert events is not None
    return events


def _with_log(**fields: Any) -> list[dict[str, Any]]:
    return [
        receipt(7, 0, logs=[log(7, 0, 0)]),
        receipt(7, 1, logs=[log(7, 1, 1), log(7, 1, 2, **fields)]),
    ]


def test_c4_null_and_an_empty_list_are_two_facts() -> None:
    assert decode_block_receipts(b"null", ref=REF, method=METHOD) is None
    assert _decode([]) == BlockEvents(7, REF.hash, [], [], 2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"blockHash": "0x" + "99" * 32}, "the block of log 2"),
        ({"blockHash": None}, "the block of log 2"),
        ({"blockNumber": "0x8"}, "the block of log 2"),
        ({"transactionHash": "0x" + "99" * 32}, "the transaction of receipt 1's log"),
        ({"transactionHash": None}, "the transaction of receipt 1's log"),
        ({"transactionIndex": "0x0"}, "the transaction of receipt 1's log"),
        ({"removed": True}, "removed"),
    ],
)
def test_c2_a_log_of_another_block_or_transaction_is_refused(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InconsistentResponse, match=message) as caught:
        _decode(_with_log(**fields))
    assert caught.value.block_number == 7


@pytest.mark.parametrize(
    "fields",
    [{"blockHash": "0x" + "99" * 32}, {"blockHash": None}, {"blockNumber": "0x1"}],
)
def test_c2_a_receipt_of_another_block_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InconsistentResponse, match="the block of receipt 1"):
        _decode([receipt(7, 0), receipt(7, 1, **fields)])


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"data": "0x1"}, "[1].logs[1].data"),
        ({"address": None}, "[1].logs[1].address"),
        ({"topics": ["0x" + "11" * 32, "0x12"]}, "[1].logs[1].topics[1]"),
        ({"topics": None}, "[1].logs[1].topics"),
        ({"topics": ["0x" + "11" * 32] * 5}, "[1].logs[1].topics"),
    ],
)
def test_a_bad_field_of_a_log_is_named_by_its_path(
    fields: dict[str, Any], path: str
) -> None:
    with pytest.raises(MalformedResponse) as caught:
        _decode(_with_log(**fields))
    assert caught.value.field == path
    assert caught.value.block_number == 7


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"status": hex(2**15)}, "[0].status"),
        ({"logsBloom": "0x00"}, "[0].logsBloom"),
        ({"logs": None}, "[0].logs"),
        ({"transactionHash": None}, "[0].transactionHash"),
    ],
)
def test_a_bad_field_of_a_receipt_is_named_by_its_path(
    fields: dict[str, Any], path: str
) -> None:
    with pytest.raises(MalformedResponse) as caught:
        _decode([receipt(7, 0) | fields])
    assert caught.value.field == path


def test_receipts_and_logs_come_in_the_order_of_their_transactions() -> None:
    replies = _with_log()
    replies.reverse()
    events = _decode(replies)
    assert [row.transaction_index for row in events.receipts] == [0, 1]
    assert [row.transaction_index for row in events.logs] == [0, 1, 1]
    assert [row.log_index for row in events.logs] == [0, 1, 2]
    assert [row.extra for row in events.logs] == [None] * 3


def test_the_same_receipt_twice_is_refused() -> None:
    with pytest.raises(InconsistentResponse, match="receipt index twice"):
        _decode([receipt(7, 0), receipt(7, 0)])


@pytest.mark.parametrize("numbers", [[0, 0, 1], [5, 6, 7], [2, 1, 0], [0, 1, 2**70]])
def test_logs_a_chain_numbers_otherwise_are_numbered_by_position(
    numbers: list[int],
) -> None:
    replies = _with_log()
    logs = [each for reply in replies for each in reply["logs"]]
    for each, number in zip(logs, numbers, strict=True):
        each["logIndex"] = hex(number)
    events = _decode(replies)
    assert [row.log_index for row in events.logs] == [0, 1, 2]
    kept = [json.loads(row.extra or "{}") for row in events.logs]
    assert kept == [{"logIndex": hex(number)} for number in numbers]


def test_log_indexes_with_leading_zeros_are_the_same_numbers() -> None:
    events = _decode(_with_log(logIndex="0x02"))
    assert [row.extra for row in events.logs] == [None] * 3


def test_logs_without_an_index_are_numbered_by_position() -> None:
    replies = _with_log()
    for each in (each for reply in replies for each in reply["logs"]):
        del each["logIndex"]
    events = _decode(replies)
    assert [row.log_index for row in events.logs] == [0, 1, 2]
    assert [row.extra for row in events.logs] == [None] * 3


def test_topics_that_are_not_there_are_none() -> None:
    topics = ["0x" + f"{number:064x}" for number in range(4)]
    logs = [log(7, 0, count, topics=topics[:count]) for count in range(5)]
    rows = _decode([receipt(7, 0, logs=logs)]).logs
    for count, row in enumerate(rows):
        stored = [row.topic0, row.topic1, row.topic2, row.topic3]
        expected = [bytes.fromhex(topic[2:]) for topic in topics[:count]]
        assert stored == expected + [None] * (4 - count)


def test_logs_without_any_topic_have_none() -> None:
    [row] = _decode([receipt(7, 0, logs=[log(7, 0, 0, topics=[])])]).logs
    assert (row.topic0, row.topic1, row.topic2, row.topic3) == (None,) * 4


def test_only_a_block_timestamp_that_repeats_the_blocks_is_dropped() -> None:
    same = _decode(_with_log(blockTimestamp=hex(TIMESTAMP)))
    assert [row.extra for row in same.logs] == [None] * 3
    other = _decode(_with_log(blockTimestamp="0x1"))
    assert json.loads(other.logs[2].extra or "") == {"blockTimestamp": "0x1"}
    unknown = decode_block_receipts(
        encoded(_with_log(blockTimestamp=hex(TIMESTAMP))),
        ref=REF._replace(timestamp=None),
        method=METHOD,
    )
    assert unknown is not None
    assert json.loads(unknown.logs[2].extra or "") == {"blockTimestamp": hex(TIMESTAMP)}


def test_fields_without_a_column_are_kept_on_every_level() -> None:
    replies = _with_log(l1BatchNumber=None)
    replies[0]["feeStats"] = {"paid": "0x1"}
    events = _decode(replies)
    assert json.loads(events.receipts[0].extra or "") == {"feeStats": {"paid": "0x1"}}
    assert events.receipts[1].extra is None
    assert json.loads(events.logs[2].extra or "") == {"l1BatchNumber": None}
    assert events.logs[0].extra is None


def test_a_pre_byzantium_root_and_an_empty_one_are_kept() -> None:
    replies = receipts(7, transactions=2)
    replies[0]["root"], replies[1]["root"] = "0x" + "12" * 32, "0x"
    del replies[0]["status"]
    rows = _decode(replies).receipts
    assert [(row.root, row.status) for row in rows] == [(b"\x12" * 32, None), (b"", 1)]
