"""Faults of whole requests, on the wire: statuses, ends, limits, broken bodies."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from indexer.devnode.faults import FAULT_HEADER, KINDS, Fault, FaultSchedule
from indexer.devnode.faults.kind import RequestKind
from indexer.devnode.server import Devnode, DevnodeConfig
from tests.support.devnode import Client, call

_HEIGHT = 200
_ASK = call(1, "eth_chainId")


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


async def _exchange(node: Devnode, body: bytes) -> bytes:
    """Return all bytes that a connection brings until it ends."""
    port = int(node.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST / HTTP/1.1\r\nHost: node\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    try:
        return await reader.read()
    finally:
        writer.close()


def _batch(size: int) -> list[Any]:
    return [call(at, "eth_getBlockByNumber", hex(at), True) for at in range(size)]


@pytest.mark.parametrize(
    ("fault", "status", "content_type", "text"),
    [
        ("status:times=1,body=busy", 503, "text/plain", "busy"),
        ("http_429:times=1", 429, "application/json", "compute units"),
        ("http_413:times=1", 413, "text/html", "413 Request"),
        ("http_502:times=1", 502, "text/html", "<center><h1>502 Bad Gateway"),
        ("plain_text:times=1", 200, "text/plain", "invalid host"),
        ("no_envelope:times=1", 200, "application/json", '{"message":"no Route'),
    ],
)
async def test_a_request_is_answered_as_gateways_and_providers_do(
    client: Client, fault: str, status: int, content_type: str, text: str
) -> None:
    await client.result("devnode_fault", fault)
    got, body, headers = await client.post(_ASK)
    assert (got, headers["Content-Type"].split(";")[0]) == (status, content_type)
    assert text in body.decode()
    assert "Retry-After" not in headers
    assert await client.result("eth_chainId") == "0x539"
    assert await client.faults() == {fault.partition(":")[0]: 1}


async def test_a_429_may_say_when_to_come_back(client: Client) -> None:
    await client.result("devnode_fault", {"kind": "http_429", "retry_after": 7})
    status, body, headers = await client.post(_batch(3))
    assert (status, headers["Retry-After"]) == (429, "7")
    assert json.loads(body)["error"]["code"] == 429


async def test_a_connection_ends_with_fin_or_with_rst(
    client: Client, node: Devnode
) -> None:
    ask = json.dumps(_ASK).encode()
    await client.result("devnode_fault", "drop:times=1", "reset:times=1")
    # Both are met by the first request: the first of them ends it.
    assert await _exchange(node, ask) == b""
    with pytest.raises(ConnectionResetError):
        await _exchange(node, ask)
    assert await client.faults() == {"drop": 1, "reset": 1}


async def test_silence_lasts_until_the_client_or_the_node_goes(
    session: aiohttp.ClientSession,
) -> None:
    async with Devnode(DevnodeConfig()) as node:
        client = Client(node.url, session)
        await client.result("devnode_fault", "silence:method=eth_chainId")
        silent = asyncio.create_task(client.result("eth_chainId"))
        assert await client.result("eth_blockNumber") == "0x0"
        struck: dict[str, int] = {}
        while not struck:
            struck = await client.faults()
        assert struck == {"silence": 1}
        assert not silent.done()
    with pytest.raises(aiohttp.ClientError):
        await silent


async def test_latency_is_added_to_every_request(client: Client) -> None:
    await client.result("devnode_fault", "latency:seconds=0.05")
    begun = time.monotonic()
    assert len(await client.send(_batch(40))) == 40
    assert await client.result("eth_chainId") == "0x539"
    assert time.monotonic() - begun >= 0.1
    assert await client.faults() == {"latency": 2}


async def test_truncated_json_comes_in_a_whole_answer(client: Client) -> None:
    _, whole, _ = await client.post(_batch(5))
    await client.result("devnode_fault", "truncated")
    status, half, _ = await client.post(_batch(5))
    assert status == 200
    assert half == whole[: len(whole) // 2]


async def test_a_cut_answer_ends_before_its_length(
    client: Client, node: Devnode
) -> None:
    ask = json.dumps(_batch(5)).encode()
    _, whole, _ = await client.post(ask)
    await client.result("devnode_fault", "cut")
    with pytest.raises(aiohttp.ClientPayloadError):
        await client.post(ask)
    head, _, body = (await _exchange(node, ask)).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(whole)}".encode() in head
    assert body == whole[: len(whole) // 2]


async def test_a_dripping_answer_comes_whole_and_slowly(client: Client) -> None:
    _, whole, _ = await client.post(_batch(5))
    await client.result("devnode_fault", "drip:count=10,seconds=0.01")
    begun = time.monotonic()
    _, dripped, _ = await client.post(_batch(5))
    assert dripped == whole
    assert time.monotonic() - begun >= 0.09


async def test_a_batch_over_the_limit_is_refused_in_the_way_of_each_provider(
    client: Client, node: Devnode
) -> None:
    await client.result("devnode_fault", "batch_limit:count=3")
    assert len(await client.send(_batch(3))) == 3
    replies = await client.send(_batch(4))
    text = "Batch of more than 3 requests are not allowed"
    assert [reply["id"] for reply in replies] == [0, 1, 2, 3]
    assert {(r["error"]["code"], r["error"]["message"]) for r in replies} == {
        (31, text)
    }
    await client.result("devnode_clearFaults")
    await client.result("devnode_fault", "batch_limit_one:count=3")
    reply = await client.send(_batch(4))
    assert reply["error"] == {"code": -32600, "message": "batch too large"}
    await client.result("devnode_clearFaults")
    await client.result("devnode_fault", "batch_limit_413:count=3")
    assert (await client.post(_batch(4)))[0] == 413
    assert (await client.post(_batch(3)))[0] == 200
    await client.result("devnode_clearFaults")
    await client.result("devnode_fault", "batch_limit_drop:count=3")
    assert await _exchange(node, json.dumps(_batch(4)).encode()) == b""
    assert len(await client.send(_batch(3))) == 3
    assert await client.faults() == {
        "batch_limit": 1,
        "batch_limit_one": 1,
        "batch_limit_413": 1,
        "batch_limit_drop": 1,
    }


async def test_a_rate_limit_counts_each_call_of_a_batch(client: Client) -> None:
    # So slow that nothing comes back into the bucket while the test runs.
    slow = "rate_limit:rate=0.0001,count=20,retry_after=2"
    await client.result("devnode_fault", slow)
    assert (await client.post(_batch(15)))[0] == 200
    status, _, headers = await client.post(_batch(6))
    assert (status, headers["Retry-After"]) == (429, "2")
    assert (await client.post(_batch(5)))[0] == 200
    assert (await client.post(_ASK))[0] == 429
    await client.result("devnode_clearFaults")
    await client.result("devnode_fault", "rate_limit_errors:rate=0.0001,count=2")
    # A batch larger than the bucket passes when that is full.
    assert [reply["id"] for reply in await client.send(_batch(3))] == [0, 1, 2]
    replies = await client.send(_batch(2))
    assert [reply["error"]["code"] for reply in replies] == [-32005, -32005]
    assert await client.code("eth_chainId") == -32005
    assert await client.faults() == {"rate_limit": 2, "rate_limit_errors": 2}


async def test_a_rate_limit_lets_its_rate_pass(client: Client) -> None:
    await client.result("devnode_fault", "rate_limit:rate=200,count=1")
    begun, passed = time.monotonic(), 0
    while passed < 20:
        passed += (await client.post(_ASK))[0] == 200
    seconds = time.monotonic() - begun
    # The first is free; nothing but the bucket makes the others wait.
    assert seconds >= 19 / 200


async def test_faults_come_with_a_request_of_their_own(
    client: Client, session: aiohttp.ClientSession, node: Devnode
) -> None:
    client.headers = {FAULT_HEADER: "null;latency:seconds=0"}
    assert await client.result("eth_chainId") is None
    client.headers = {FAULT_HEADER: '[{"kind":"error","code":-7}]'}
    assert await client.code("eth_chainId") == -7
    client.headers = {FAULT_HEADER: "nonsense"}
    status, body, _ = await client.post(_ASK)
    assert status == 400
    assert b"no fault 'nonsense'" in body
    client.headers = {}
    assert await client.result("eth_chainId") == "0x539"
    assert not node.faults.active
    assert await client.faults() == {"null": 1, "latency": 1, "error": 1}


async def test_faults_are_put_and_ended_by_admin_methods(client: Client) -> None:
    await client.result("devnode_fault", {"kind": "null"}, "latency:seconds=0")
    assert await client.result("eth_chainId") is None
    await client.result("devnode_clearFaults")
    assert await client.result("eth_chainId") == "0x539"
    await client.result("devnode_schedule", {"rate": 1.0, "kinds": ["null"]})
    assert await client.result("eth_chainId") is None
    await client.result("devnode_schedule", None)
    assert await client.result("eth_chainId") == "0x539"
    kinds = await client.result("devnode_faultKinds")
    assert kinds == {name: kind.doc for name, kind in KINDS.items()}
    for wrong in ("magic", {"kind": "null", "size": 1}, "lag:method=eth_x,count=a"):
        assert await client.code("devnode_fault", wrong) == -32602
    assert await client.code("devnode_schedule", {"kinds": ["magic"]}) == -32602


async def test_refused_requests_are_counted_by_method_too(client: Client) -> None:
    await client.result("devnode_fault", "http_502")
    await client.post(_batch(3))
    await client.post(_ASK)
    counters = await client.result("devnode_counters")
    assert counters["methods"]["eth_getBlockByNumber"] == 3
    assert counters["methods"]["eth_chainId"] == 1
    assert counters["faults"] == {"http_502": 2}
    await client.result("devnode_clearCounters")
    counters = await client.result("devnode_counters")
    assert counters["methods"] == {"devnode_counters": 1}
    assert counters["faults"] == {}


async def test_a_schedule_hits_the_same_requests_of_two_nodes(
    session: aiohttp.ClientSession,
) -> None:
    schedule = FaultSchedule(seed=3, rate=0.25, kinds=("null", "http_502", "error"))

    async def statuses() -> list[Any]:
        config = DevnodeConfig(height=9, schedule=schedule)
        async with Devnode(config) as node:
            client = Client(node.url, session)
            return [(await client.post(_ASK))[:2] for _ in range(60)]

    first = await statuses()
    assert first == await statuses()
    assert len({*first}) == 4
    assert 5 < sum(answer != first[0] for answer in first) < 55


@pytest.mark.parametrize(
    "kind", [name for name, kind in KINDS.items() if isinstance(kind, RequestKind)]
)
async def test_over_websocket_a_refusal_is_a_message_or_the_end(
    node: Devnode, session: aiohttp.ClientSession, kind: str
) -> None:
    if kind == "silence":
        node.faults.add(Fault(kind=kind, times=1))
    else:
        node.faults.add(Fault(kind=kind, count=1, rate=0.0001))
    async with session.ws_connect(node.ws_url) as socket:
        await socket.send_json(_batch(2))
        await socket.send_json(_ASK)
        message = await socket.receive()
        if message.type is aiohttp.WSMsgType.TEXT:
            assert kind in (
                "batch_limit",
                "batch_limit_one",
                "latency",
                "no_envelope",
                "plain_text",
                "rate_limit",
                "rate_limit_errors",
                "silence",
            )
        else:
            assert message.type in (
                aiohttp.WSMsgType.CLOSED,
                aiohttp.WSMsgType.ERROR,
            )
    assert node.faults.tally[kind] >= 1


async def test_over_websocket_bodies_are_spoilt_too(
    node: Devnode, session: aiohttp.ClientSession
) -> None:
    node.faults.add(Fault(kind="truncated", times=1))
    node.faults.add(Fault(kind="drip", times=1, seconds=0.001))
    node.faults.add(Fault(kind="cut"))
    async with session.ws_connect(node.ws_url) as socket:
        await socket.send_json(_ASK)
        assert (await socket.receive()).data == '{"jsonrpc":"2.0","id'
        await socket.send_json(_ASK)
        assert (await socket.receive_json())["result"] == "0x539"
        await socket.send_json(_ASK)
        assert (await socket.receive()).type in (
            aiohttp.WSMsgType.CLOSED,
            aiohttp.WSMsgType.ERROR,
        )
