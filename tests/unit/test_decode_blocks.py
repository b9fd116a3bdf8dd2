"""Blocks: what is refused, what is kept beside, how a chain's fields are learned."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from indexer.chain.decode import decode_block, decode_header, decode_quantity
from indexer.chain.decode.extras import SANITIZED
from indexer.chain.decode.levels import LEARNED_NAMES
from indexer.errors import InconsistentResponse, MalformedResponse
from indexer.rows import BlockData
from tests.support.replies import METHOD, TIMESTAMP, block, encoded, transaction

UINT256 = hex(2**256 - 1)


def _decode(reply: dict[str, Any], number: int | None = None) -> BlockData:
    data = decode_block(encoded(reply), number=number, method=METHOD)
    assert data is not None
    return data


def _with(**fields: Any) -> dict[str, Any]:
    return block(7, transactions=2) | {
        "transactions": [transaction(7, 0), transaction(7, 1, **fields)]
    }


def _extra(text: str | None) -> dict[str, Any]:
    assert text is not None
    extra: dict[str, Any] = json.loads(text)
    return extra


def test_c4_null_is_no_block() -> None:
    assert decode_block(b"null", number=1, method=METHOD) is None
    assert decode_header(b"null", number=1, method=METHOD) is None


def test_c1_a_block_of_another_number_is_refused() -> None:
    with pytest.raises(InconsistentResponse, match="asked for block 8, got block 7"):
        _decode(block(7), number=8)


@pytest.mark.parametrize("field", ["number", "hash", "parentHash", "transactions"])
@pytest.mark.parametrize("how", ["null", "absent"])
def test_a_pending_or_partial_block_is_refused(field: str, how: str) -> None:
    reply = block(7)
    if how == "null":
        reply[field] = None
    else:
        del reply[field]
    with pytest.raises(MalformedResponse) as caught:
        _decode(reply, number=7)
    assert caught.value.field == field
    assert caught.value.block_number == 7


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"gas": "0xzz"}, "transactions[1].gas"),
        ({"gas": hex(2**63)}, "transactions[1].gas"),
        ({"nonce": UINT256}, "transactions[1].nonce"),
        ({"hash": "0x12"}, "transactions[1].hash"),
        ({"from": 12}, "transactions[1].from"),
        ({"from": "0x1"}, "transactions[1].from"),
        ({"input": "0x123"}, "transactions[1].input"),
        ({"type": hex(2**31)}, "transactions[1].type"),
        ({"blobVersionedHashes": ["0x12"]}, "transactions[1].blobVersionedHashes"),
        ({"transactionIndex": None}, "transactions[1].transactionIndex"),
        ({"accessList": [10**20_000]}, "transactions[1].accessList"),
        ({"surplus": [10**20_000]}, "transactions[1].surplus"),
    ],
)
def test_a_bad_field_is_named_by_its_path_and_block(
    fields: dict[str, Any], path: str
) -> None:
    reply = _with(**fields)
    if "accessList" in fields or "surplus" in fields:
        raw = encoded(_with(**{next(iter(fields)): "@"})).replace(b'"@"', b"1e999999")
    else:
        raw = encoded(reply)
    with pytest.raises(MalformedResponse) as caught:
        decode_block(raw, number=None, method=METHOD)
    assert caught.value.field == path
    assert caught.value.block_number == 7
    assert caught.value.method == METHOD


@pytest.mark.parametrize(
    "raw",
    [b'{"number":"0x7","hash":"\xff"}', b"[]", b"1", b'"0x"', b"[" * 5000, b"",
     b'{"a":"\\ud800"}', b'{"number":"0x7"', b'{"x":"\\ud800","hash":1}',
     b'{"a\\u0000":1}', b'{"a\\"b":1}', b'{"a":1,"\xff":1}'],
)  # fmt: skip
def test_what_is_no_block_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedResponse):
        decode_block(raw, number=7, method=METHOD)


def test_the_largest_numbers_are_kept() -> None:
    names = ["value", "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas",
             "maxFeePerBlobGas", "chainId", "v", "r", "s"]  # fmt: skip
    reply = _with(**dict.fromkeys(names, UINT256), nonce=hex(2**64 - 1))
    reply |= dict.fromkeys(["difficulty", "totalDifficulty", "baseFeePerGas"], UINT256)
    reply["gasLimit"] = hex(2**64 - 1)
    data = _decode(reply)
    row = data.transactions[1]
    assert {row.value, row.gas_price, row.max_fee_per_gas, row.chain_id, row.v, row.r,
            row.s, row.max_priority_fee_per_gas, row.max_fee_per_blob_gas,
            data.block.difficulty, data.block.total_difficulty,
            data.block.base_fee_per_gas} == {2**256 - 1}  # fmt: skip
    assert row.nonce == data.block.gas_limit == 2**64 - 1


def test_absent_and_null_are_none_and_never_zero() -> None:
    sparse = {"number": "0x1", "hash": "0x" + "01" * 32, "parentHash": "0x" + "02" * 32}
    row = _decode({**sparse, "transactions": [], "miner": None}).block
    assert set(row[3:]) == {None}


def test_timestamp_zero_is_a_time() -> None:
    assert _decode(block(0, timestamp="0x0")).block.timestamp == datetime(
        1970, 1, 1, tzinfo=UTC
    )


@pytest.mark.parametrize("seconds", [253_402_300_800, 1_700_000_000_000_000, 2**64 - 1])
def test_a_timestamp_that_is_no_time_is_kept_beside(seconds: int) -> None:
    row = _decode(block(7, timestamp=hex(seconds))).block
    assert row.timestamp is None
    assert _extra(row.extra) == {"timestamp": hex(seconds)}


def test_the_last_second_of_the_year_9999_is_a_time() -> None:
    row = _decode(block(7, timestamp=hex(253_402_300_799))).block
    assert row.timestamp == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert row.extra is None


@pytest.mark.parametrize(
    "fields",
    [
        {"blockHash": "0x" + "99" * 32},
        {"blockHash": None},
        {"blockHash": "0x12"},
        {"blockNumber": "0x8"},
        {"blockNumber": None},
        {"blockNumber": "seven"},
    ],
)
def test_c1_a_transaction_of_another_block_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(
        InconsistentResponse, match="block 7: the block of transaction 1"
    ):
        _decode(_with(**fields))


def test_a_transaction_that_names_no_block_is_of_the_one_it_is_in() -> None:
    reply = _with()
    for each in reply["transactions"]:
        del each["blockHash"], each["blockNumber"]
    assert [row.extra for row in _decode(reply).transactions] == [None, None]


def test_hashes_in_upper_case_are_the_same_block() -> None:
    reply = _with(blockHash=block(7)["hash"].upper().replace("0X", "0x"))
    assert len(_decode(reply).transactions) == 2


def test_transactions_come_in_the_order_of_their_index() -> None:
    reply = block(7, transactions=3)
    reply["transactions"].reverse()
    assert [row.transaction_index for row in _decode(reply).transactions] == [0, 1, 2]


def test_the_same_transaction_index_twice_is_refused() -> None:
    with pytest.raises(InconsistentResponse, match="transaction index twice"):
        _decode(_with(transactionIndex="0x0"))


def test_the_same_withdrawal_twice_is_refused() -> None:
    twice = [{"index": "0x1", "amount": "0x2"}] * 2
    with pytest.raises(InconsistentResponse, match="withdrawal index twice"):
        _decode(block(7, withdrawals=twice))


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (hex(TIMESTAMP), None),
        (hex(TIMESTAMP).replace("0x", "0x00"), None),
        (hex(TIMESTAMP + 1), {"blockTimestamp": hex(TIMESTAMP + 1)}),
        (None, {"blockTimestamp": None}),
        ("noon", {"blockTimestamp": "noon"}),
        (TIMESTAMP, {"blockTimestamp": TIMESTAMP}),
    ],
)
def test_only_a_block_timestamp_that_repeats_the_blocks_is_dropped(
    sent: object, kept: object
) -> None:
    row = _decode(_with(blockTimestamp=sent)).transactions[1]
    assert (json.loads(row.extra) if row.extra else None) == kept


def test_fields_without_a_column_are_kept_on_every_level() -> None:
    surplus = {"l1Fee": "0x1", "note": {"a": [1, None, 2.5]}}
    reply = _with(**surplus)
    reply["withdrawals"] = [{"index": "0x1", "who": "x"}, {"index": "0x2"}]
    reply["sealFields"] = ["0x1"]
    data = _decode(reply)
    assert _extra(data.block.extra) == {"sealFields": ["0x1"]}
    assert data.transactions[0].extra is None
    assert _extra(data.transactions[1].extra) == surplus
    assert _extra(data.withdrawals[0].extra) == {"who": "x"}
    assert data.withdrawals[1].extra is None


def test_more_names_than_are_remembered_are_kept_all_the_same() -> None:
    for start in range(0, 5 * LEARNED_NAMES, LEARNED_NAMES):
        names = [f"field{number}" for number in range(start, start + LEARNED_NAMES)]
        reply = block(7) | dict.fromkeys(names, "x")
        assert _extra(_decode(reply).block.extra) == dict.fromkeys(names, "x")


def test_names_that_are_python_words_or_odd_are_kept() -> None:
    odd = {"class": 1, "import": 2, "": 3, "a b": 4, "\u00e9'": 5, "learned_0": 6}
    assert _extra(_decode(block(7, **odd)).block.extra) == odd


@pytest.mark.parametrize("name", ["surplus", "accessList"])
@pytest.mark.parametrize(
    ("sent", "kept"),
    [(b'"a\\u0000b"', "a\ufffdb"), (b'"a\xffb"', "a\ufffdb"), (b'"\\udfff"', "\ufffd")],
)
def test_text_that_jsonb_cannot_hold_is_marked_and_the_row_stays(
    name: str, sent: bytes, kept: str
) -> None:
    raw = encoded(_with(**{name: "@"})).replace(b'"@"', sent)
    data = decode_block(raw, number=7, method=METHOD)
    assert data is not None
    row = data.transactions[1]
    extra = _extra(row.extra)
    assert extra.pop(SANITIZED) == [name]
    if name == "accessList":
        assert row.access_list is not None
        assert json.loads(row.access_list) == kept
        assert extra == {}
    else:
        assert extra == {name: kept}


def test_a_node_that_sends_the_replacement_character_is_not_accused_of_it() -> None:
    row = _decode(_with(accessList=["\ufffd"])).transactions[1]
    assert row.access_list is not None
    assert json.loads(row.access_list) == ["\ufffd"]
    assert row.extra is None


def test_the_bytes_of_a_reply_are_counted() -> None:
    raw = encoded(block(7))
    data = decode_block(raw, number=7, method=METHOD)
    assert data is not None
    assert data.raw_bytes == len(raw)


def test_a_quantity_alone_is_decoded() -> None:
    assert decode_quantity(b'"0x1f"', method=METHOD) == 31
    for raw in (b"null", b"31", b'"31"', b"{}"):
        with pytest.raises(MalformedResponse):
            decode_quantity(raw, method=METHOD)
