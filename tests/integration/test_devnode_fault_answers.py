"""Faults of single calls, on the wire: errors, nulls, and well-formed lies."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from indexer.devnode.faults import KINDS
from indexer.devnode.faults.kind import CallKind
from indexer.devnode.server import Devnode, DevnodeConfig
from tests.support import consensus
from tests.support.devnode import Client, call

_HEIGHT = 60
# Of the mixed profile: two transactions and more, with several logs.
_BUSY = 8


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def node() -> AsyncIterator[Devnode]:
    async with Devnode(DevnodeConfig(height=_HEIGHT)) as node:
        yield node


@pytest.fixture
def client(node: Devnode, session: aiohttp.ClientSession) -> Client:
    return Client(node.url, session)


async def _logs(client: Client, height: int = _BUSY) -> Any:
    span = {"fromBlock": hex(height), "toBlock": hex(height)}
    return await client.result("eth_getLogs", span)


def _all_logs(receipts: Any) -> list[Any]:
    return [log for receipt in receipts for log in receipt["logs"]]


async def test_a_busy_block_has_what_these_tests_spoil(client: Client) -> None:
    receipts = await client.receipts(_BUSY)
    assert len(receipts) > 2
    assert len(_all_logs(receipts)) > 2


@pytest.mark.parametrize(
    ("kind", "code", "text"),
    [
        ("error", -32000, "fault on purpose"),
        ("error_rate_limit", -32005, "request rate exceeded"),
        ("error_too_many_results", -32005, "more than 10000 results"),
        ("error_32007", -32007, "request limit reached"),
        ("error_32016", -32016, "over rate limit"),
        ("error_30", 30, "free tier"),
        ("error_nested_429", -32000, '"code":-32016'),
        ("error_4444", 4444, "pruned history unavailable"),
    ],
)
async def test_errors_come_with_status_200_and_the_codes_of_providers(
    client: Client, kind: str, code: int, text: str
) -> None:
    await client.result("devnode_fault", {"kind": kind, "times": 1})
    ask = call(5, "eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x2"})
    status, body, _ = await client.post(ask)
    reply = json.loads(body)
    assert (status, reply["id"], reply["error"]["code"]) == (200, 5, code)
    assert text in reply["error"]["message"]
    assert "result" in await client.send(ask)


async def test_a_block_is_null_for_the_first_asks_of_each_height(
    client: Client,
) -> None:
    await client.result("devnode_fault", {"kind": "null_first", "count": 2})
    for height in (5, 6):
        assert [await client.block(height) for _ in range(2)] == [None, None]
        block = await client.block(height)
        assert block["number"] == hex(height)
        # Receipts are counted for themselves.
        assert [await client.receipts(height) for _ in range(2)] == [None, None]
        assert len(await client.receipts(height)) == len(block["transactions"])


async def test_a_block_is_announced_before_it_can_be_fetched(
    client: Client, node: Devnode, session: aiohttp.ClientSession
) -> None:
    await client.result("devnode_fault", {"kind": "announce_early", "count": 2})
    async with session.ws_connect(node.ws_url) as socket:
        await socket.send_json(call(1, "eth_subscribe", "newHeads"))
        await socket.receive_json()
        await client.result("devnode_mine")
        header = (await socket.receive_json())["params"]["result"]
    ask = ("eth_getBlockByHash", header["hash"], True)
    assert [await client.result(*ask) for _ in range(2)] == [None, None]
    assert (await client.result(*ask))["number"] == hex(_HEIGHT + 1)
    assert (await client.block(_HEIGHT))["number"] == hex(_HEIGHT)
    assert await client.faults() == {"announce_early": 2}


async def test_receipts_are_null_empty_or_too_few(client: Client) -> None:
    receipts = await client.receipts(_BUSY)
    one = receipts[0]["transactionHash"]
    await client.result("devnode_fault", "null_receipts")
    assert await client.receipts(_BUSY) is None
    assert await client.result("eth_getTransactionReceipt", one) is None
    await client.result("devnode_clearFaults")
    await client.result("devnode_fault", "empty_receipts")
    assert await client.receipts(_BUSY) == []
    await client.result("devnode_clearFaults")
    await client.result("devnode_fault", "short_receipts:count=2")
    assert await client.receipts(_BUSY) == receipts[:-2]
    # A block with nothing in it cannot be lied about like this.
    assert await client.receipts(6) == []
    assert await client.faults() == {
        "null_receipts": 2,
        "empty_receipts": 1,
        "short_receipts": 1,
    }


async def test_logs_are_missing_while_the_bloom_stays(client: Client) -> None:
    receipts = await client.receipts(_BUSY)
    logs = _all_logs(receipts)
    await client.result("devnode_fault", "partial_logs:times=2", "empty_logs")
    short = await client.receipts(_BUSY)
    assert _all_logs(short) == logs[:-1]
    assert [r["logsBloom"] for r in short] == [r["logsBloom"] for r in receipts]
    # The first takes the last one off, the second all that are left.
    assert await _logs(client) == []
    await client.result("devnode_clearFaults")
    await client.result("devnode_fault", "partial_logs:count=2")
    assert await _logs(client) == logs[:-2]
    assert await client.faults() == {"partial_logs": 3, "empty_logs": 1}


async def test_log_indexes_are_doubled_or_count_by_transaction(client: Client) -> None:
    logs = _all_logs(await client.receipts(_BUSY))
    indexes = [log["logIndex"] for log in logs]
    await client.result("devnode_fault", "doubled_log_index")
    for lied in (_all_logs(await client.receipts(_BUSY)), await _logs(client)):
        assert [log["logIndex"] for log in lied] == [*indexes[:-1], indexes[-2]]
        assert [log["data"] for log in lied] == [log["data"] for log in logs]
    await client.result("devnode_clearFaults")
    await client.result("devnode_fault", "doubled_log")
    assert _all_logs(await client.receipts(_BUSY)) == [*logs, logs[-1]]
    assert await _logs(client) == [*logs, logs[-1]]
    await client.result("devnode_clearFaults")
    await client.result("devnode_fault", "local_log_index")
    for receipt in await client.receipts(_BUSY):
        numbers = [int(log["logIndex"], 16) for log in receipt["logs"]]
        assert numbers == list(range(len(numbers)))


async def test_a_reply_names_another_block_throughout_or_in_one_place(
    client: Client,
) -> None:
    block, receipts = await client.block(_BUSY), await client.receipts(_BUSY)
    await client.result("devnode_fault", "wrong_hash")
    lied = await client.block(_BUSY)
    assert lied["hash"] != block["hash"] == consensus.header_hash(lied)
    assert {t["blockHash"] for t in lied["transactions"]} == {lied["hash"]}
    named = await client.receipts(_BUSY)
    everything = [*named, *_all_logs(named), *await _logs(client)]
    assert {item["blockHash"] for item in everything} == {lied["hash"]}
    await client.result("devnode_clearFaults")
    await client.result("devnode_fault", "stray_hash")
    lied = await client.block(_BUSY)
    strays = [t["blockHash"] != block["hash"] for t in lied["transactions"]]
    assert (lied["hash"], sum(strays)) == (block["hash"], 1)
    told = await client.receipts(_BUSY)
    named = [item["blockHash"] for item in (*told, *_all_logs(told))]
    assert sum(item != block["hash"] for item in named) == 1
    await client.result("devnode_clearFaults")
    await client.result("devnode_fault", "wrong_number")
    lied = await client.block(_BUSY)
    assert (lied["hash"], lied["number"]) == (block["hash"], hex(_BUSY + 1))
    assert {t["blockNumber"] for t in lied["transactions"]} == {hex(_BUSY + 1)}
    named = await client.receipts(_BUSY)
    assert {r["blockNumber"] for r in named} == {hex(_BUSY + 1)}
    assert [r["blockHash"] for r in named] == [r["blockHash"] for r in receipts]


async def test_a_block_is_changed_where_only_its_hashes_tell(client: Client) -> None:
    block, receipts = await client.block(_BUSY), await client.receipts(_BUSY)
    await client.result("devnode_fault", "tampered")
    lied = await client.block(_BUSY)
    assert lied["hash"] == consensus.header_hash(lied)
    assert lied["transactionsRoot"] != consensus.transactions_root(lied)
    told = await client.receipts(_BUSY)
    assert consensus.receipts_root(told) != block["receiptsRoot"]
    assert len(_all_logs(told)) == len(_all_logs(receipts))
    empty = await client.block(6)
    assert empty["hash"] != consensus.header_hash(empty)
    await client.result("devnode_clearFaults")
    await client.result("devnode_fault", "short_block")
    lied = await client.block(_BUSY)
    assert lied["transactions"] == block["transactions"][:-1]
    lied = await client.block(_BUSY, full=False)
    assert len(lied["transactions"]) == len(block["transactions"]) - 1
    await client.result("devnode_clearFaults")
    await client.result("devnode_fault", "wrong_parent")
    assert (await client.block(_BUSY))["parentHash"] != block["parentHash"]


async def test_a_block_is_pending_huge_typed_anew_or_short_of_a_field(
    client: Client,
) -> None:
    block = await client.block(_BUSY)
    await client.result("devnode_fault", "pending_block:times=1")
    lied = await client.block(_BUSY)
    assert (lied["hash"], lied["number"], lied["nonce"]) == (None, None, None)
    await client.result("devnode_fault", "max_values")
    lied = await client.block(_BUSY)
    largest = hex(2**256 - 1)
    assert lied["timestamp"] == lied["gasUsed"] == largest
    assert {t["value"] for t in lied["transactions"]} == {largest}
    told = await client.receipts(_BUSY)
    assert {r["cumulativeGasUsed"] for r in told} == {largest}
    await client.result("devnode_clearFaults")
    await client.result("devnode_fault", "unknown_type")
    lied, told = await client.block(_BUSY), await client.receipts(_BUSY)
    assert lied["transactions"][-1]["type"] == told[-1]["type"] == "0x7e"
    assert lied["transactions"][:-1] == block["transactions"][:-1]
    assert "sourceHash" in lied["transactions"][-1]
    assert "depositNonce" in told[-1]
    await client.result("devnode_clearFaults")
    await client.result("devnode_fault", "missing_field:field=nonce")
    assert {*block} - {*await client.block(_BUSY)} == {"nonce"}


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("nul_text", rb'"note":"a\u0000b"'),
        ("invalid_utf8_text", b'"note":"a\xa7\xff\xc3b"'),
        ("surrogate_text", rb'"note":"a\ud800b"'),
    ],
)
async def test_an_extra_text_has_what_databases_refuse(
    client: Client, kind: str, raw: bytes
) -> None:
    asks = [
        call(1, "eth_getBlockByNumber", hex(_BUSY), True),
        call(1, "eth_getBlockReceipts", hex(_BUSY)),
        call(1, "eth_getLogs", {"fromBlock": hex(_BUSY), "toBlock": hex(_BUSY)}),
    ]
    truths = [await client.post(ask) for ask in asks]
    await client.result("devnode_fault", {"kind": kind})
    for ask, (_, truth, _) in zip(asks, truths, strict=True):
        _, lied, _ = await client.post(ask)
        assert lied.count(raw) == 2
        assert lied.replace(b"," + raw, b"") == truth


async def test_old_history_is_pruned(client: Client) -> None:
    old = await client.block(_BUSY)
    await client.result("devnode_fault", {"kind": "pruned", "height": 20})
    assert await client.block(_BUSY) is None
    assert await client.result("eth_getBlockByHash", old["hash"], True) is None
    assert (await client.block(0))["number"] == "0x0"
    pruned = (4444, "pruned history unavailable")
    span = {"fromBlock": hex(_BUSY), "toBlock": hex(30)}
    one = old["transactions"][0]["hash"]
    assert await client.error("eth_getBlockReceipts", hex(_BUSY)) == pruned
    assert await client.error("eth_getBlockReceipts", old["hash"]) == pruned
    assert await client.error("eth_getTransactionReceipt", one) == pruned
    assert await client.error("eth_getLogs", span) == pruned
    assert (await client.block(20))["number"] == hex(20)
    assert await client.receipts(20)
    await client.result("devnode_clearFaults")
    await client.result("devnode_fault", "pruned_receipts:height=20")
    assert await client.block(_BUSY) == old
    assert await client.error("eth_getBlockReceipts", hex(_BUSY)) == pruned


async def test_log_filters_have_limits(client: Client) -> None:
    span = {"fromBlock": "0x1", "toBlock": "0xb"}
    await client.result("devnode_fault", "log_range_limit:count=10")
    text = "eth_getLogs block range too large, range: 11, max: 10"
    assert await client.error("eth_getLogs", span) == (-32005, text)
    span["toBlock"] = "0xa"
    logs = await client.result("eth_getLogs", span)
    await client.result("devnode_clearFaults")
    limit = len(logs) - 1
    await client.result("devnode_fault", {"kind": "log_result_limit", "count": limit})
    text = f"query returned more than {limit} results"
    assert await client.error("eth_getLogs", span) == (-32005, text)
    await client.result("devnode_clearFaults")
    await client.result(
        "devnode_fault",
        {
            "kind": "log_range_limit",
            "count": 4,
            "code": -32600,
            "message": "this block range should work: [{first}, {last}]",
        },
    )
    text = "this block range should work: [0x1, 0x4]"
    assert await client.error("eth_getLogs", span) == (-32600, text)


async def test_a_method_may_not_exist(client: Client) -> None:
    await client.result("devnode_fault", "unsupported")
    assert await client.code("eth_getBlockReceipts", "0x1") == -32601
    assert (await client.block(1))["number"] == "0x1"
    await client.result("devnode_fault", "unsupported:method=eth_getLogs")
    assert await client.code("eth_getLogs", {}) == -32601


async def test_a_fault_of_some_heights_makes_a_poison_block(client: Client) -> None:
    truth = {height: await client.receipts(height) for height in range(_BUSY + 3)}
    fault = {"kind": "short_receipts", "from_height": _BUSY, "to_height": _BUSY}
    await client.result("devnode_fault", fault)
    by_hash = truth[_BUSY][0]["blockHash"]
    for height, receipts in truth.items():
        told = await client.receipts(height)
        assert (told == receipts) == (height != _BUSY)
    told = await client.result("eth_getBlockReceipts", by_hash)
    assert told == truth[_BUSY][:-1]
    assert (await client.faults())["short_receipts"] == 2


@pytest.mark.parametrize(
    "kind", [name for name, kind in KINDS.items() if isinstance(kind, CallKind)]
)
async def test_every_fault_of_a_call_strikes_and_leaves_a_reply_with_its_id(
    client: Client, kind: str
) -> None:
    truth = await client.block(_BUSY)
    one = truth["transactions"][0]["hash"]
    asks = [
        call(1, "eth_getBlockByNumber", hex(_BUSY), True),
        call(2, "eth_getBlockByHash", truth["hash"], False),
        call(3, "eth_getBlockReceipts", truth["hash"]),
        call(4, "eth_getTransactionReceipt", one),
        call(5, "eth_getTransactionByHash", one),
        call(6, "eth_getLogs", {"fromBlock": "0x1", "toBlock": hex(_BUSY)}),
        call(7, "eth_getBlockByNumber", "latest", True),
    ]
    _, before, _ = await client.post(asks)
    await client.result("devnode_fault", {"kind": kind, "height": 20, "count": 1})
    if kind == "announce_early":
        await client.result("devnode_mine")
    _, after, _ = await client.post(asks)
    assert after != before
    replies = json.loads(after.decode(errors="replace"))
    assert [reply["id"] for reply in replies] == [1, 2, 3, 4, 5, 6, 7]
    assert all(("result" in reply) != ("error" in reply) for reply in replies)
    assert (await client.faults())[kind] >= 1
