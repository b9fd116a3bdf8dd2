"""Every recorded reply of every chain decodes, and nothing of it is lost."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import pytest

from indexer.chain.decode import decode_block, decode_block_receipts, decode_header
from indexer.errors import InconsistentResponse, MalformedResponse
from indexer.rows import BlockData, BlockEvents, BlockRef
from tests.support.fixtures import Recorded, needs_fixtures, recorded
from tests.support.found_again import lost

METHOD = "eth_test"

# What cannot be stored, with the field that says so and why it is refused.
REFUSED = {
    "celo/receipt_7b_32460725.json": (
        "[0].logs",
        "the logs were deleted with jq before publication: absent is not empty",
    ),
    "goerli/negative_bad_transactions_nil.json": (
        "transactions[0]",
        "corrupted on purpose: the transactions are null",
    ),
    "harmony/hmy_block_42379341.json": (
        "difficulty",
        "the hmy_ namespace: numbers are JSON numbers, addresses bech32",
    ),
    "klaytn/95978055_block.json": (
        "transactions[0].hash",
        "the klay_ namespace: transactions are receipts, without a hash of their own",
    ),
    "klaytn/receipt_0x5778fac2.json": (
        "[0].type",
        "the klay_ namespace: the type is a name",
    ),
    "klaytn/receipt_0x7975ee75.json": (
        "[0].type",
        "the klay_ namespace: the type is a name",
    ),
    "klaytn/receipt_0xbc22a4cd.json": (
        "[0].type",
        "the klay_ namespace: the type is a name",
    ),
    "odd/header_67765895_alloy.json": (
        "stateRoot",
        "a unit test's values: the state root has no bytes",
    ),
}
# What contradicts itself, with what the error says and why.
CONTRADICTORY = {
    "logs/removed_true_geth_unit.json": (
        "block 2019236 .* removed",
        "a unit test's log that says that it was removed with its block",
    ),
    "polygon/34155965/bor_receipt.json": (
        "block 34155965: the block of log 0 says",
        "put together upstream: its logs are of another block than the receipt",
    ),
}

# These only repeat what a row beside says; the decoder verifies them.
REPEATED = frozenset({"blockHash", "blockNumber"})


def _transactions_are_hashes(block: dict[str, Any]) -> bool:
    listed = block.get("transactions")
    return listed is None or (bool(listed) and isinstance(listed[0], str))


def _block_of(item: Recorded) -> dict[str, Any]:
    """Return the block; a lone transaction is put into one that holds it only."""
    if item.kind == "block":
        block: dict[str, Any] = item.value
        return block
    return {
        "number": item.value["blockNumber"],
        "hash": item.value["blockHash"],
        "parentHash": "0x" + "00" * 32,
        "transactions": [item.value],
    }


def _receipts_of(item: Recorded) -> list[list[dict[str, Any]]]:
    """Return receipts block by block; lone logs are put into receipts of theirs."""
    if item.kind == "receipts":
        return [item.value]
    blocks = []
    for _, of_block in groupby(item.value, key=lambda log: log["blockNumber"]):
        receipts = []
        for _, logs in groupby(of_block, key=lambda log: log["transactionIndex"]):
            listed = list(logs)
            names = ("blockHash", "blockNumber", "transactionHash", "transactionIndex")
            receipts.append({name: listed[0][name] for name in names})
            receipts[-1]["logs"] = listed
        blocks.append(receipts)
    return blocks


def _ref(receipts: list[dict[str, Any]]) -> BlockRef:
    return BlockRef(
        number=int(receipts[0]["blockNumber"], 16),
        hash=bytes.fromhex(receipts[0]["blockHash"][2:]),
        timestamp=None,
        receipts_root=None,
        logs_bloom=None,
        transaction_hashes=(),
    )


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def _decode(item: Recorded) -> None:
    if item.kind in ("block", "transaction"):
        block = _block_of(item)
        decode = decode_header if _transactions_are_hashes(block) else decode_block
        decode(_encoded(block), number=None, method=METHOD)
    else:
        for receipts in _receipts_of(item):
            raw = _encoded(receipts)
            decode_block_receipts(raw, ref=_ref(receipts), method=METHOD)


def _lost_of_block(block: dict[str, Any], data: BlockData) -> list[str]:
    parts = frozenset({"transactions", "withdrawals"})
    problems = lost(block, data.block, elsewhere=parts)
    assert len(data.transactions) == len(block["transactions"])
    by_index = sorted(
        block["transactions"], key=lambda t: int(t["transactionIndex"], 16)
    )
    for sent, row in zip(by_index, data.transactions, strict=True):
        elsewhere = REPEATED
        if sent.get("blockTimestamp") == block.get("timestamp"):
            elsewhere |= {"blockTimestamp"}
        problems += lost(sent, row, elsewhere=elsewhere)
    withdrawals = block.get("withdrawals") or []
    for sent, withdrawal in zip(withdrawals, data.withdrawals, strict=True):
        problems += lost(sent, withdrawal, elsewhere=frozenset())
    return problems


def _lost_of_receipts(receipts: list[dict[str, Any]], events: BlockEvents) -> list[str]:
    problems: list[str] = []
    by_index = sorted(receipts, key=lambda r: int(r["transactionIndex"], 16))
    logs = [log for receipt in by_index for log in receipt["logs"]]
    for sent, row in zip(by_index, events.receipts, strict=True):
        problems += lost(sent, row, elsewhere=REPEATED | {"logs"})
    for sent, log in zip(logs, events.logs, strict=True):
        elsewhere = REPEATED | {"topics"}
        if sent.get("removed") is False:
            elsewhere |= {"removed"}
        problems += lost(sent, log, elsewhere=elsewhere)
        stored = [log.topic0, log.topic1, log.topic2, log.topic3]
        topics = ["0x" + topic.hex() for topic in stored if topic is not None]
        assert topics == [topic.lower() for topic in sent["topics"]]
    return problems


def _named(items: list[Recorded]) -> list[Any]:
    return [pytest.param(item, id=f"{item.file}-{item.kind}") for item in items]


ALL = recorded()
STORABLE = [
    item for item in ALL if item.file not in REFUSED and item.file not in CONTRADICTORY
]


@needs_fixtures
@pytest.mark.parametrize("item", _named(STORABLE))
def test_every_field_of_a_recorded_reply_is_found_again(item: Recorded) -> None:
    if item.kind in ("block", "transaction"):
        block = _block_of(item)
        if _transactions_are_hashes(block):
            row = decode_header(_encoded(block), number=None, method=METHOD)
            assert row is not None
            parts = frozenset({"transactions", "withdrawals"})
            assert lost(block, row, elsewhere=parts) == []
            return
        data = decode_block(_encoded(block), number=None, method=METHOD)
        assert data is not None
        assert _lost_of_block(block, data) == []
        return
    for receipts in _receipts_of(item):
        raw = _encoded(receipts)
        events = decode_block_receipts(raw, ref=_ref(receipts), method=METHOD)
        assert events is not None
        assert _lost_of_receipts(receipts, events) == []


@needs_fixtures
@pytest.mark.parametrize("item", _named([i for i in ALL if i.file in REFUSED]))
def test_what_cannot_be_stored_is_refused_by_field_and_block(item: Recorded) -> None:
    field, _ = REFUSED[item.file]
    with pytest.raises(MalformedResponse) as caught:
        _decode(item)
    block = item.value if item.kind == "block" else item.value[0]
    assert caught.value.field == field
    number = int(block.get("number") or block["blockNumber"], 16)
    assert caught.value.block_number == number
    assert field in str(caught.value)
    assert str(number) in str(caught.value)


@needs_fixtures
@pytest.mark.parametrize("item", _named([i for i in ALL if i.file in CONTRADICTORY]))
def test_what_contradicts_itself_is_refused_by_block(item: Recorded) -> None:
    message, _ = CONTRADICTORY[item.file]
    with pytest.raises(InconsistentResponse, match=message):
        _decode(item)


@needs_fixtures
@pytest.mark.parametrize(
    "item",
    _named(
        [i for i in STORABLE if i.kind == "block" and _transactions_are_hashes(i.value)]
    ),
)
def test_a_block_without_its_transactions_is_refused_where_they_were_asked_for(
    item: Recorded,
) -> None:
    with pytest.raises(MalformedResponse) as caught:
        decode_block(item.text, number=None, method=METHOD)
    assert caught.value.field.startswith("transactions")
    assert caught.value.block_number == int(item.value["number"], 16)


@needs_fixtures
def test_every_recorded_file_is_looked_at() -> None:
    kinds = {item.kind for item in ALL}
    assert kinds == {"block", "transaction", "receipts", "logs"}
    assert len({item.file for item in ALL}) >= 140
    assert REFUSED.keys() | CONTRADICTORY.keys() <= {item.file for item in ALL}
