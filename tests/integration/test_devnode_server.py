"""The node over real sockets: HTTP, WebSocket, and web3 as its client."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from web3 import AsyncHTTPProvider, AsyncWeb3

from indexer.devnode.faults import Fault
from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode, serve
from tests.support import consensus
from tests.support.devnode import Client, call

_HEIGHT = 200


@pytest.fixture
async def node() -> AsyncIterator[Devnode]:
    async with Devnode(DevnodeConfig(height=_HEIGHT)) as node:
        yield node


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def client(node: Devnode, session: aiohttp.ClientSession) -> Client:
    return Client(node.url, session)


async def test_the_node_says_what_it_is(client: Client) -> None:
    assert (await client.result("web3_clientVersion")).startswith("indexer-devnode/")
    assert await client.result("net_version") == "1337"
    assert await client.result("eth_chainId") == "0x539"
    assert await client.result("eth_blockNumber") == hex(_HEIGHT)
    assert await client.result("eth_syncing") is False


async def test_health_names_the_head(
    node: Devnode, session: aiohttp.ClientSession
) -> None:
    async with session.get(f"{node.url}/health") as reply:
        state = await reply.json()
    assert (state["status"], state["head"]) == ("ok", _HEIGHT)
    async with session.get(node.url) as reply:
        assert reply.status == 405


@pytest.mark.parametrize(
    ("tag", "height"),
    [
        ("earliest", 0),
        ("latest", _HEIGHT),
        ("pending", _HEIGHT),
        ("safe", _HEIGHT - 32),
        ("finalized", _HEIGHT - 64),
        ("0x0", 0),
        ("0x7", 7),
    ],
)
async def test_tags_and_numbers_name_blocks(
    client: Client, tag: str, height: int
) -> None:
    block = await client.result("eth_getBlockByNumber", tag, False)
    assert block["number"] == hex(height)
    count = await client.result("eth_getBlockTransactionCountByNumber", tag)
    assert count == hex(len(block["transactions"]))


async def test_a_block_is_the_same_by_number_and_by_hash(client: Client) -> None:
    for height in range(20):
        for full in (True, False):
            block = await client.result("eth_getBlockByNumber", hex(height), full)
            again = await client.result("eth_getBlockByHash", block["hash"], full)
            assert block == again
        full_block = await client.result("eth_getBlockByNumber", hex(height), True)
        assert consensus.header_hash(full_block) == full_block["hash"]


async def test_receipts_are_the_same_by_number_hash_object_and_one_by_one(
    client: Client,
) -> None:
    for height in range(12):
        block = await client.result("eth_getBlockByNumber", hex(height), True)
        receipts = await client.result("eth_getBlockReceipts", hex(height))
        by_object = {"blockHash": block["hash"]}
        assert receipts == await client.result("eth_getBlockReceipts", block["hash"])
        assert receipts == await client.result("eth_getBlockReceipts", by_object)
        assert consensus.receipts_root(receipts) == block["receiptsRoot"]
        for transaction, receipt in zip(block["transactions"], receipts, strict=True):
            wanted = transaction["hash"]
            found = await client.result("eth_getTransactionReceipt", wanted)
            assert found == receipt
            found = await client.result("eth_getTransactionByHash", wanted)
            assert found == transaction
    latest = await client.result("eth_getBlockReceipts", "latest")
    assert latest == await client.result("eth_getBlockReceipts", hex(_HEIGHT))


async def test_what_is_not_there_is_null(client: Client, node: Devnode) -> None:
    unknown = "0x" + "ab" * 32
    hidden = "0x" + node.chain.hash_at(_HEIGHT + 1).hex()
    above = hex(_HEIGHT + 1)
    assert await client.result("eth_getBlockByNumber", above, True) is None
    assert await client.result("eth_getBlockReceipts", above) is None
    assert await client.result("eth_getBlockTransactionCountByNumber", above) is None
    for block_hash in (unknown, hidden):
        assert await client.result("eth_getBlockByHash", block_hash, True) is None
        assert await client.result("eth_getBlockReceipts", block_hash) is None
    assert await client.result("eth_getTransactionByHash", unknown) is None
    assert await client.result("eth_getTransactionReceipt", unknown) is None


async def test_a_node_may_know_no_finalized_tag(
    session: aiohttp.ClientSession,
) -> None:
    async with Devnode(DevnodeConfig(height=9, finality_depth=None)) as node:
        client = Client(node.url, session)
        assert await client.code("eth_getBlockByNumber", "finalized", False) == -32602
        assert await client.code("eth_getBlockByNumber", "safe", False) == -32602
        latest = await client.result("eth_getBlockByNumber", "latest", False)
        assert latest["number"] == "0x9"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("eth_getBlockByNumber", []),
        ("eth_getBlockByNumber", ["0x1"]),
        ("eth_getBlockByNumber", ["0x1", "true"]),
        ("eth_getBlockByNumber", ["0x1", True, 1]),
        ("eth_getBlockByNumber", ["0x01", True]),
        ("eth_getBlockByNumber", ["1", True]),
        ("eth_getBlockByNumber", [1, True]),
        ("eth_getBlockByNumber", ["newest", True]),
        ("eth_getBlockByHash", ["0x12", True]),
        ("eth_getBlockReceipts", [None]),
        ("eth_getBlockReceipts", [{}]),
        ("eth_getTransactionReceipt", [7]),
        ("eth_getLogs", ["latest"]),
        ("eth_getLogs", [{"fromBlock": "0x5", "toBlock": "0x4"}]),
        ("eth_getLogs", [{"toBlock": hex(_HEIGHT + 1)}]),
        ("eth_getLogs", [{"address": "0x12"}]),
        ("eth_getLogs", [{"topics": ["0x12"]}]),
        ("eth_getLogs", [{"topics": [None] * 5}]),
        ("devnode_mine", [-1]),
        ("devnode_reorg", [_HEIGHT + 1]),
        ("devnode_reorg", [0]),
        ("devnode_fork", [1]),
        ("devnode_fault", [{"kind": "magic"}]),
    ],
)
async def test_bad_parameters_are_refused(
    client: Client, method: str, params: list[Any]
) -> None:
    assert await client.code(method, *params) == -32602


async def test_other_mistakes_have_the_codes_of_the_specification(
    client: Client,
) -> None:
    assert await client.code("eth_mining") == -32601
    assert await client.code("eth_subscribe", "newHeads") == -32601
    reply = await client.send(b"{not json")
    assert (reply["id"], reply["error"]["code"]) == (None, -32700)
    assert (await client.send([]))["error"]["code"] == -32600
    assert (await client.send(7))["error"]["code"] == -32600
    reply = await client.send({"id": 4, "method": "eth_chainId", "params": {"a": 1}})
    assert (reply["id"], reply["error"]["code"]) == (4, -32602)
    over = {"blockHash": "0x" + "00" * 32, "fromBlock": "0x1"}
    assert await client.code("eth_getLogs", over) == -32602
    assert await client.code("eth_getLogs", {"blockHash": "0x" + "00" * 32}) == -32000


async def test_a_batch_is_answered_in_full_each_with_its_own_id(
    client: Client,
) -> None:
    ids: list[Any] = [5, "five", None, 5.5, -1, [1, {"a": 2}], 5]
    calls = [
        call(call_id, "eth_getBlockByNumber", hex(height), False)
        for height, call_id in enumerate(ids)
    ]
    replies = await client.send([*calls, call("x", "eth_nonsense"), 9])
    assert [reply["id"] for reply in replies] == [*ids, "x", None]
    numbers = [reply["result"]["number"] for reply in replies[: len(ids)]]
    assert numbers == [hex(height) for height in range(len(ids))]
    assert [reply["error"]["code"] for reply in replies[-2:]] == [-32601, -32600]


async def test_notifications_get_no_answer(client: Client) -> None:
    mine = {"jsonrpc": "2.0", "method": "devnode_mine"}
    assert await client.send(mine) is None
    assert await client.send([mine, mine]) is None
    replies = await client.send([mine, call(1, "eth_blockNumber")])
    assert [reply["result"] for reply in replies] == [hex(_HEIGHT + 4)]


async def test_logs_are_those_of_the_receipts_for_every_filter(client: Client) -> None:
    everything: list[Any] = []
    by_hash: dict[str, list[Any]] = {}
    for height in range(61):
        block = await client.result("eth_getBlockByNumber", hex(height), False)
        receipts = await client.result("eth_getBlockReceipts", hex(height))
        logs = [log for receipt in receipts for log in receipt["logs"]]
        by_hash[block["hash"]] = logs
        everything += logs
    span = {"fromBlock": "0x0", "toBlock": hex(60)}
    assert await client.result("eth_getLogs", span) == everything
    for block_hash, logs in by_hash.items():
        assert await client.result("eth_getLogs", {"blockHash": block_hash}) == logs
    two = [everything[0]["address"], everything[-1]["address"].upper()]
    two[1] = two[1].replace("0X", "0x")
    some = next(log for log in everything if len(log["topics"]) == 3)
    first, second = some["topics"][:2]
    for extra, matches in (
        ({"address": two[0]}, lambda log: log["address"] == two[0]),
        ({"address": two}, lambda log: log["address"] in [a.lower() for a in two]),
        ({"topics": [first]}, lambda log: log["topics"][:1] == [first]),
        (
            {"topics": [[first], second]},
            lambda log: log["topics"][:2] == some["topics"][:2],
        ),
        ({"topics": [None, second]}, lambda log: log["topics"][1:2] == [second]),
        ({"topics": [None] * 4}, lambda log: len(log["topics"]) == 4),
        ({"topics": []}, lambda log: True),
    ):
        wanted = [log for log in everything if matches(log)]
        assert await client.result("eth_getLogs", {**span, **extra}) == wanted
        assert wanted


async def test_a_filter_over_too_many_blocks_is_refused(
    session: aiohttp.ClientSession,
) -> None:
    async with Devnode(DevnodeConfig(profile="sparse", height=20_000)) as node:
        client = Client(node.url, session)
        assert await client.code("eth_getLogs", {"fromBlock": "0x0"}) == -32602


async def test_the_head_moves_when_told_to(client: Client, node: Devnode) -> None:
    assert await client.result("devnode_mine") == hex(_HEIGHT + 1)
    assert await client.result("devnode_mine", 5) == hex(_HEIGHT + 6)
    finalized = await client.result("eth_getBlockByNumber", "finalized", False)
    assert finalized["number"] == hex(_HEIGHT + 6 - 64)
    assert await client.result("devnode_setHead", 50) == "0x32"
    assert await client.result("eth_blockNumber") == "0x32"
    assert await client.result("eth_getBlockByNumber", "0x33", True) is None
    finalized = await client.result("eth_getBlockByNumber", "finalized", False)
    assert finalized["number"] == "0x0"
    assert node.chain.head == 50


async def test_the_head_moves_by_itself(session: aiohttp.ClientSession) -> None:
    config = DevnodeConfig(height=3, block_time=0.01)
    async with Devnode(config) as node, session.ws_connect(node.ws_url) as socket:
        await socket.send_json(call(1, "eth_subscribe", "newHeads"))
        name = (await socket.receive_json())["result"]
        heads = [(await socket.receive_json())["params"] for _ in range(4)]
    assert {head["subscription"] for head in heads} == {name}
    numbers = [int(head["result"]["number"], 16) for head in heads]
    assert numbers == list(range(numbers[0], numbers[0] + 4))


async def test_new_heads_are_announced_to_subscribers_until_they_leave(
    node: Devnode, session: aiohttp.ClientSession, client: Client
) -> None:
    async with session.ws_connect(node.ws_url) as socket:
        await socket.send_json(call("s", "eth_subscribe", "newHeads"))
        reply = await socket.receive_json()
        assert reply["id"] == "s"
        await client.result("devnode_mine", 3)
        for height in range(_HEIGHT + 1, _HEIGHT + 4):
            message = await socket.receive_json()
            assert message["method"] == "eth_subscription"
            assert message["params"]["subscription"] == reply["result"]
            header = message["params"]["result"]
            assert header["number"] == hex(height)
            assert consensus.header_hash(header) == header["hash"]
            assert "transactions" not in header
        await socket.send_json(call(2, "eth_unsubscribe", reply["result"]))
        assert (await socket.receive_json())["result"] is True
        await client.result("devnode_mine")
        # Had there been a notification, it would come before this reply.
        await socket.send_json(call(3, "eth_blockNumber"))
        assert (await socket.receive_json())["result"] == hex(_HEIGHT + 4)
        for params in ([reply["result"]], [], [[1]]):
            await socket.send_json(call(4, "eth_unsubscribe", *params))
            assert (await socket.receive_json())["error"]["code"] == -32000


async def test_everything_goes_over_websocket_too(
    node: Devnode, session: aiohttp.ClientSession, client: Client
) -> None:
    async with session.ws_connect(node.ws_url) as socket:
        calls = [call(h, "eth_getBlockByNumber", hex(h), True) for h in range(10)]
        await socket.send_json(calls)
        assert await socket.receive_json() == await client.send(calls)
        await socket.send_bytes(json.dumps(calls[3]).encode())
        assert await socket.receive_json() == await client.send(calls[3])
        await socket.send_str("{")
        assert (await socket.receive_json())["error"]["code"] == -32700
        await socket.send_json(call(1, "eth_subscribe", "logs"))
        assert (await socket.receive_json())["error"]["code"] == -32601


async def test_a_reorg_is_announced_and_its_blocks_replace_the_old_ones(
    node: Devnode, session: aiohttp.ClientSession, client: Client
) -> None:
    depth, tip = 5, _HEIGHT
    old = [
        await client.result("eth_getBlockByNumber", hex(height), True)
        for height in range(tip - depth, tip + 1)
    ]
    async with session.ws_connect(node.ws_url) as socket:
        await socket.send_json(call(1, "eth_subscribe", "newHeads"))
        await socket.receive_json()
        assert await client.result("devnode_reorg", depth) == hex(tip + 1)
        parent = old[0]["hash"]
        for height in range(tip - depth + 1, tip + 2):
            header = (await socket.receive_json())["params"]["result"]
            assert header["number"] == hex(height)
            assert header["parentHash"] == parent
            parent = header["hash"]
            block = await client.result("eth_getBlockByNumber", hex(height), True)
            assert block["hash"] == parent == consensus.header_hash(block)
    assert (await client.result("eth_getBlockByHash", old[0]["hash"], True)) == old[0]
    for block in old[1:]:
        assert await client.result("eth_getBlockByHash", block["hash"], True) is None
        assert await client.result("eth_getBlockReceipts", block["hash"]) is None
        for transaction in block["transactions"]:
            for method in ("eth_getTransactionByHash", "eth_getTransactionReceipt"):
                assert await client.result(method, transaction["hash"]) is None


async def test_two_nodes_on_two_forks_part_at_the_fork(
    client: Client, session: aiohttp.ClientSession
) -> None:
    config = DevnodeConfig(height=_HEIGHT, forks=((180, 3),))
    async with Devnode(config) as node:
        other = Client(node.url, session)

        async def same(height: int) -> bool:
            one, two = await client.block(height), await other.block(height)
            return bool(one == two)

        assert [await same(height) for height in (0, 180, 181, 200)] == [
            True,
            True,
            False,
            False,
        ]
        assert await client.result("devnode_fork", 180, 3) is True
        assert await same(200)


async def test_faults_replace_results_of_the_method_they_name(client: Client) -> None:
    await client.result("devnode_fault", {"kind": "null", "method": "eth_chainId"})
    fault = {"kind": "error", "code": -32005, "message": "slower", "times": 1}
    await client.result("devnode_fault", {**fault, "method": "eth_blockNumber"})
    assert await client.result("eth_chainId") is None
    reply = await client.reply("eth_blockNumber")
    assert reply["error"] == {"code": -32005, "message": "slower"}
    assert await client.result("eth_blockNumber") == hex(_HEIGHT)
    await client.result("devnode_fault")
    assert await client.result("eth_chainId") == "0x539"


async def test_a_request_may_be_answered_with_a_status(
    session: aiohttp.ClientSession,
) -> None:
    fault = Fault(kind="status", status=429, retry_after=3, body="busy", times=1)
    async with Devnode(DevnodeConfig(faults=(fault,))) as node:
        asked = call(1, "eth_chainId")
        async with session.post(node.url, json=asked) as reply:
            assert (reply.status, await reply.text()) == (429, "busy")
            assert reply.headers["Retry-After"] == "3"
        async with session.post(node.url, json=asked) as reply:
            assert reply.status == 200


async def test_a_connection_may_be_dropped(session: aiohttp.ClientSession) -> None:
    fault = Fault(kind="drop", method="eth_chainId", times=2)
    async with Devnode(DevnodeConfig(faults=(fault,))) as node:
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.post(node.url, json=call(1, "eth_chainId"))
        async with session.ws_connect(node.ws_url) as socket:
            await socket.send_json(call(1, "eth_blockNumber"))
            assert (await socket.receive_json())["result"] == "0x0"
            await socket.send_json(call(1, "eth_chainId"))
            closing = (await socket.receive()).type
            assert closing in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
        client = Client(node.url, session)
        assert await client.result("eth_chainId") == "0x539"


async def test_a_slow_request_holds_up_no_other(
    session: aiohttp.ClientSession,
) -> None:
    # Far longer than the test may take: only the fast one can be what answers.
    fault = Fault(kind="latency", method="eth_chainId", seconds=3600)
    async with Devnode(DevnodeConfig(faults=(fault,))) as node:
        client = Client(node.url, session)
        slow = asyncio.create_task(client.result("eth_chainId"))
        async with session.ws_connect(node.ws_url) as socket:
            await socket.send_json(call(1, "eth_chainId"))
            await socket.send_json(call(2, "eth_blockNumber"))
            assert (await socket.receive_json())["id"] == 2
        assert await client.result("eth_blockNumber") == "0x0"
        assert not slow.done()
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)


async def test_latency_passes(session: aiohttp.ClientSession) -> None:
    fault = Fault(kind="latency", seconds=0.001)
    async with Devnode(DevnodeConfig(faults=(fault,))) as node:
        client = Client(node.url, session)
        assert await client.result("eth_chainId") == "0x539"


async def test_requests_are_counted_by_method(client: Client) -> None:
    await client.send([call(1, "eth_chainId"), call(2, "eth_blockNumber")])
    await client.result("eth_chainId")
    counters = await client.result("devnode_counters")
    assert counters["methods"] == {
        "eth_chainId": 2,
        "eth_blockNumber": 1,
        "devnode_counters": 1,
    }
    assert (counters["requests"], counters["batches"]) == (3, 1)
    assert counters["bytesIn"] > counters["bytesOut"] > 0


async def test_the_node_answers_while_it_makes_a_long_chain(
    session: aiohttp.ClientSession,
) -> None:
    config = DevnodeConfig(profile="sparse", height=100_000_000)
    async with Devnode(config) as node:
        client = Client(node.url, session)
        far = asyncio.create_task(client.result("eth_getBlockByNumber", "latest", True))
        near = await client.result("eth_getBlockByNumber", "0x64", True)
        assert near["number"] == "0x64"
        assert await client.result("eth_blockNumber") == hex(100_000_000)
        assert not far.done()
        far.cancel()
        await asyncio.gather(far, return_exceptions=True)


@pytest.mark.parametrize("profile", ["sparse", "mixed", "dense"])
async def test_web3_reads_the_blocks(profile: str) -> None:
    async with Devnode(DevnodeConfig(profile=profile, height=30)) as node:
        web3 = AsyncWeb3(AsyncHTTPProvider(node.url))
        try:
            assert await web3.eth.chain_id == 1337
            for height in range(3 if profile == "dense" else 31):
                block = await web3.eth.get_block(height, full_transactions=True)
                receipts = await web3.eth.get_block_receipts(height)
                assert bytes(block["hash"]) == node.chain.hash_at(height)
                assert len(receipts) == len(block["transactions"])
            latest = await web3.eth.get_block("finalized")
            assert latest["number"] == 0
        finally:
            await web3.provider.disconnect()


async def test_serve_runs_until_cancelled(session: aiohttp.ClientSession) -> None:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(DevnodeConfig(prepare=10), ready.set_result))
    url = await ready
    assert await Client(url, session).result("eth_chainId") == "0x539"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(aiohttp.ClientConnectionError):
        await session.post(url, json=call(1, "eth_chainId"))


def test_a_node_runs_in_a_thread_of_its_own() -> None:
    with running_devnode(DevnodeConfig(height=4)) as node:
        node.mine(2)
        data = json.dumps(call(1, "eth_blockNumber")).encode()
        request = urllib.request.Request(node.url, data, method="POST")
        with urllib.request.urlopen(request) as reply:
            assert json.load(reply)["result"] == "0x6"


def test_a_port_that_is_taken_is_an_error_not_a_hang() -> None:
    with running_devnode(DevnodeConfig()) as node:
        taken = DevnodeConfig(port=int(node.url.rpartition(":")[2]))
        with (
            pytest.raises(OSError, match="address already in use"),
            running_devnode(taken),
        ):
            pass
