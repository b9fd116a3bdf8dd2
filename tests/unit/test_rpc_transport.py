"""Bytes over real HTTP, WebSocket and IPC, and what becomes of every failure."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from indexer.chain.endpoint import Endpoint
from indexer.chain.endpoints import Endpoints
from indexer.chain.envelope import Call
from indexer.chain.rpc import SubscriptionUnsupported, open_transport
from indexer.errors import (
    ConfigError,
    InconsistentResponse,
    RangeTooLarge,
    RpcError,
    RpcRateLimited,
    RpcUnavailable,
)
from tests.support.fakenode import FakeNode, Refusal, running

BIG = "0x" + "ab" * (25 * 1024 * 1024)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[FakeNode]:
    methods = {
        "eth_blockNumber": lambda params: "0x10",
        "echo": lambda params: params[0],
        "big": lambda params: BIG,
    }
    async with running(FakeNode(methods), tmp_path) as served:
        yield served


@pytest.fixture(params=["url", "ws_url", "ipc_path"])
async def endpoint(
    node: FakeNode, request: pytest.FixtureRequest
) -> AsyncIterator[Endpoint]:
    made = Endpoint(getattr(node, request.param), timeout=20)
    yield made
    await made.close()


@pytest.fixture
async def http(node: FakeNode) -> AsyncIterator[Endpoint]:
    made = Endpoint(node.url, timeout=20)
    yield made
    await made.close()


@pytest.fixture
async def ws(node: FakeNode) -> AsyncIterator[Endpoint]:
    made = Endpoint(node.ws_url, timeout=20)
    yield made
    await made.close()


def _answer_with(
    node: FakeNode, body: str | bytes, *, status: int = 200, **headers: str
) -> None:
    raw = body.encode() if isinstance(body, str) else body

    async def respond(request: web.Request, sent: Any) -> web.StreamResponse:
        return web.Response(body=raw, status=status, headers=headers)

    node.respond = respond


async def _echo(endpoint: Endpoint, count: int) -> list[int]:
    raws = await endpoint.batch([Call("echo", [number]) for number in range(count)])
    return [json.loads(bytes(raw)) for raw in raws]


@contextmanager
def _closed_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize(
    "url",
    ["", "node", "ftp://node", "http://", "ws://", "http:///path", "relative/path.ipc",
     "http://node:99999", "http://[bad", "://node", "ipc://node"],
)  # fmt: skip
def test_a_url_that_cannot_be_one_is_refused_before_any_io(url: str) -> None:
    with pytest.raises(ConfigError, match="is no RPC URL"):
        open_transport(url, {}, 1.0)


def test_no_secret_of_a_url_is_in_its_error_or_name() -> None:
    with pytest.raises(ConfigError) as caught:
        open_transport("http://:SECRET@:99999/v2/SECRET", {}, 1.0)
    assert "SECRET" not in str(caught.value)
    transport = open_transport("https://user:SECRET@node.example/v2/SECRET", {}, 1.0)
    assert "SECRET" not in transport.name
    assert "node.example" in transport.name


def test_two_keys_of_one_host_are_told_apart_without_being_shown() -> None:
    names = [Endpoint(f"https://node.example/v2/{key}").key for key in ("k1s", "k2s")]
    assert len(set(names)) == 2
    assert all(name.startswith("node.example ") for name in names)
    assert not any(key in name for name in names for key in ("k1s", "k2s"))


async def test_only_where_names_are_the_same_a_digest_tells_them_apart() -> None:
    urls = [f"https://node.example/v2/{key}" for key in ("k1s", "k2s")]
    async with Endpoints.from_urls([*urls, "https://other.example/k3s"]) as endpoints:
        one, another, other = endpoints.all
        assert one.name != another.name
        assert {each.name.rpartition(" #")[0] for each in (one, another)} == {
            Endpoint(urls[0]).name
        }
        assert other.name == Endpoint("https://other.example/k3s").name
        # In what a node is blamed for as well.
        assert another.name in str(another.transport.unavailable("is gone"))
        assert "k2s" not in another.name


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_a_handshake_that_is_cancelled_leaves_no_connection_and_no_lock(
    scheme: str,
) -> None:
    arrived: asyncio.Queue[asyncio.Event] = asyncio.Queue()

    async def silent(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        left = asyncio.Event()
        arrived.put_nowait(left)
        try:
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass
        left.set()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        endpoint = Endpoint(f"{scheme}://127.0.0.1:{port}", timeout=20)
        for _ in range(3):
            asked = asyncio.create_task(endpoint.call("eth_blockNumber", []))
            # Each comes to the node: none waits for one that is cancelled.
            left = await asyncio.wait_for(arrived.get(), 10)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            await asyncio.wait_for(left.wait(), 10)
        await endpoint.close()


async def test_calls_and_batches_come_back(endpoint: Endpoint) -> None:
    assert bytes(await endpoint.call("eth_blockNumber", [])) == b'"0x10"'
    assert await _echo(endpoint, 15) == list(range(15))


async def test_many_requests_at_once_find_their_answers(endpoint: Endpoint) -> None:
    assert await _echo(endpoint, 700) == list(range(700))


@pytest.mark.parametrize("rounds", range(8))
async def test_requests_that_are_cancelled_at_any_moment_hold_nobody_up(
    endpoint: Endpoint, rounds: int
) -> None:
    asked = [asyncio.create_task(_echo(endpoint, 2)) for _ in range(6)]
    for _ in range(rounds):
        await asyncio.sleep(0)
    for each in asked:
        each.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    async with asyncio.timeout(5):
        assert await _echo(endpoint, 3) == [0, 1, 2]


async def test_a_block_of_fifty_megabytes_comes_through(endpoint: Endpoint) -> None:
    assert len(memoryview(await endpoint.call("big", []))) == len(BIG) + 2


async def test_c1_shuffled_replies_find_their_requests(
    node: FakeNode, endpoint: Endpoint
) -> None:
    node.tamper = lambda replies: replies[::-1]
    assert await _echo(endpoint, 10) == list(range(10))


@pytest.mark.parametrize("how", ["short", "doubled", "foreign", "swapped"])
async def test_c1_of_a_batch_that_does_not_match_nothing_is_taken(
    node: FakeNode, http: Endpoint, how: str
) -> None:
    tampered = {
        "short": lambda replies: replies[:-1],
        "doubled": lambda replies: [*replies[:-1], replies[0]],
        "foreign": lambda replies: [*replies[:-1], {**replies[-1], "id": 10**6}],
        "swapped": lambda replies: [{**each, "id": "x"} for each in replies],
    }
    node.tamper = tampered[how]
    # Cut in halves, down to requests that are no batches and match.
    assert await _echo(http, 10) == list(range(10))
    assert sorted(node.batches)[:10] == [1] * 10
    assert len(node.batches) <= 2 * 10


async def test_c1_a_single_reply_to_another_request_is_refused(
    node: FakeNode, http: Endpoint
) -> None:
    _answer_with(node, '{"jsonrpc":"2.0","id":77,"result":"0x1"}')
    with pytest.raises(InconsistentResponse):
        await http.call("eth_blockNumber", [])


async def test_headers_are_sent(node: FakeNode) -> None:
    endpoint = Endpoint(node.url, headers={"Authorization": "Bearer KEY"})
    await endpoint.call("eth_blockNumber", [])
    await endpoint.close()
    assert node.headers[0]["Authorization"] == "Bearer KEY"
    assert node.headers[0]["Content-Type"] == "application/json"


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_a_node_that_is_down_is_named_without_its_secrets(scheme: str) -> None:
    with _closed_port() as port:
        endpoint = Endpoint(f"{scheme}://user:SECRET@127.0.0.1:{port}/v2/SECRET")
        with pytest.raises(RpcUnavailable, match=f"127.0.0.1:{port}") as caught:
            await endpoint.call("eth_blockNumber", [])
        assert "SECRET" not in str(caught.value)
        await endpoint.close()


async def test_an_ipc_socket_that_is_not_there_is_named(tmp_path: Path) -> None:
    endpoint = Endpoint(str(tmp_path / "nothing.ipc"))
    with pytest.raises(RpcUnavailable, match=r"nothing\.ipc"):
        await endpoint.call("eth_blockNumber", [])
    await endpoint.close()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (502, "<html>Bad Gateway</html>"),
        (503, ""),
        (500, '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"oops"}}'),
        (200, '{"jsonrpc":"2.0","id":1,"result":"0x'),
        (200, "invalid host specified"),
        (404, "no such project"),
    ],
)
async def test_a_node_that_answers_nothing_usable_is_unavailable(
    node: FakeNode, http: Endpoint, status: int, body: str
) -> None:
    _answer_with(node, body, status=status)
    with pytest.raises(RpcUnavailable):
        await http.call("eth_blockNumber", [])


async def test_a_rate_limit_carries_the_time_the_node_asks_for(
    node: FakeNode, http: Endpoint
) -> None:
    _answer_with(node, "slow down", status=429, **{"Retry-After": "17"})
    with pytest.raises(RpcRateLimited) as caught:
        await http.call("eth_blockNumber", [])
    assert caught.value.retry_after == 17.0
    assert http.breaker.wait_seconds() > 16.0
    assert len(node.headers) == 1


@pytest.mark.parametrize(
    ("sent", "at_least"),
    [(None, None), ("soon", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("-1", 0.0)],
)
async def test_a_retry_after_of_any_form_is_understood(
    node: FakeNode, sent: str | None, at_least: float | None
) -> None:
    _answer_with(node, "", status=429, **({"Retry-After": sent} if sent else {}))
    endpoint = Endpoint(node.url, patience=-1.0)
    with pytest.raises(RpcRateLimited) as caught:
        await endpoint.call("eth_blockNumber", [])
    assert caught.value.retry_after == at_least
    assert len(node.headers) == 1
    await endpoint.close()


async def test_a_node_that_asks_for_a_moment_is_given_it(
    node: FakeNode, http: Endpoint
) -> None:
    async def respond(request: web.Request, sent: Any) -> web.StreamResponse | None:
        return web.Response(status=429) if len(node.headers) == 1 else None

    node.respond = respond
    assert await _echo(http, 15) == list(range(15))
    assert len(node.headers) == 2


async def test_a_result_counts_whatever_the_status_says(
    node: FakeNode, http: Endpoint
) -> None:
    _answer_with(node, '{"jsonrpc":"2.0","id":1,"result":"0x1"}', status=400)
    assert bytes(await http.call("eth_blockNumber", [])) == b'"0x1"'


async def test_an_error_object_is_an_rpc_error(node: FakeNode, http: Endpoint) -> None:
    def refuse(params: list[Any]) -> Any:
        raise Refusal(-32602, "invalid argument 0")

    node.methods["bad"] = refuse
    with pytest.raises(RpcError) as caught:
        await http.call("bad", [])
    error = caught.value
    assert (error.method, error.code, error.text) == (
        "bad",
        -32602,
        "invalid argument 0",
    )


@pytest.mark.parametrize("how", ["413", "hang up", "error object", "list", "each"])
async def test_a_batch_too_big_for_the_node_is_cut_and_never_again_sent_too_big(
    node: FakeNode, http: Endpoint, how: str
) -> None:
    error = {"code": 31, "message": "Batch of more than 3 requests are not allowed"}

    async def respond(request: web.Request, sent: Any) -> web.StreamResponse | None:
        if not isinstance(sent, list) or len(sent) <= 3:
            return None
        if how == "413":
            return web.Response(status=413, text="Payload Too Large")
        if how == "hang up":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if how == "each":
            return web.json_response(
                [{"id": each["id"], "error": error} for each in sent]
            )
        one = {"jsonrpc": "2.0", "id": None, "error": error}
        return web.json_response([one] if how == "list" else one)

    node.respond = respond
    assert await _echo(http, 20) == list(range(20))
    assert max(node.batches) <= 3
    # Where nothing was said it may have been chance, the first time.
    for _ in range(6 if how == "hang up" else 1):
        await _echo(http, 20)
    assert max(node.batches) <= 3
    refused_before = len(node.headers) - len(node.batches)
    for _ in range(5):
        assert await _echo(http, 20) == list(range(20))
    assert len(node.headers) - len(node.batches) == refused_before
    assert max(node.batches) == 3


async def test_a_single_request_that_is_too_big_says_so(
    node: FakeNode, http: Endpoint
) -> None:
    _answer_with(node, "Payload Too Large", status=413)
    with pytest.raises(RangeTooLarge):
        await _echo(http, 4)


async def test_a_node_that_hangs_up_on_a_single_request_is_unavailable(
    node: FakeNode, http: Endpoint
) -> None:
    async def respond(request: web.Request, sent: Any) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    node.respond = respond
    with pytest.raises(RpcUnavailable, match="closed the connection"):
        await http.call("eth_blockNumber", [])


async def test_an_answer_cut_short_is_not_taken_for_one(
    node: FakeNode, http: Endpoint
) -> None:
    async def respond(request: web.Request, sent: Any) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"jsonrpc":"2.0","id":1,"result":"0x1"}')
        assert request.transport is not None
        request.transport.close()
        return response

    node.respond = respond
    with pytest.raises(RpcUnavailable):
        await http.call("eth_blockNumber", [])


async def test_an_answer_without_an_end_is_not_read_into_memory(
    node: FakeNode, http: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.chain.rpc.http.REPLY_BYTES", 1_000_000)
    with pytest.raises(RangeTooLarge, match="more than 1000000 bytes"):
        await http.call("big", [])
    assert bytes(await http.call("eth_blockNumber", [])) == b'"0x10"'


async def test_a_node_that_falls_silent_within_an_answer_is_given_up(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = asyncio.Event()

    async def respond(request: web.Request, sent: Any) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"jsonrpc"')
        await release.wait()
        return response

    node.respond = respond
    monkeypatch.setattr("indexer.chain.rpc.http._STALL_SECONDS", 0.05)
    endpoint = Endpoint(node.url, timeout=20)
    with pytest.raises(RpcUnavailable, match="fell silent"):
        await endpoint.call("eth_blockNumber", [])
    release.set()
    await endpoint.close()


async def test_a_node_that_answers_nothing_costs_few_requests_of_many(
    node: FakeNode, http: Endpoint
) -> None:
    _answer_with(node, "<html>maintenance</html>")
    outcomes = await http.outcomes([Call("echo", [number]) for number in range(20)])
    assert all(isinstance(each, RpcUnavailable) for each in outcomes)
    # log2(20) cuts and three single requests.
    assert len(node.headers) <= 5 + 3


async def test_one_request_that_the_node_cannot_bear_costs_the_others_nothing(
    node: FakeNode, http: Endpoint
) -> None:
    async def respond(request: web.Request, sent: Any) -> web.StreamResponse | None:
        calls = sent if isinstance(sent, list) else [sent]
        if not any(each["params"] == [13] for each in calls):
            return None
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    node.respond = respond
    outcomes = await http.outcomes([Call("echo", [number]) for number in range(20)])
    failed = [at for at, one in enumerate(outcomes) if isinstance(one, RpcUnavailable)]
    assert failed == [13]
    # Each refusal is asked twice, as a kept connection may have been closed.
    assert len(node.headers) <= 2 * 5 + 2 * 5


async def test_a_silent_node_is_given_up_after_the_timeout(node: FakeNode) -> None:
    release = asyncio.Event()

    async def respond(request: web.Request, sent: Any) -> web.StreamResponse | None:
        await release.wait()
        return None

    node.respond = respond
    endpoint = Endpoint(node.url, timeout=0.05)
    with pytest.raises(RpcUnavailable, match=r"no answer in 0\.05 s"):
        await endpoint.call("eth_blockNumber", [])
    release.set()
    await endpoint.close()


async def test_a_lost_socket_fails_who_waits_and_is_made_anew(
    node: FakeNode, ws: Endpoint
) -> None:
    asked = asyncio.Event()

    def swallow(replies: Any) -> Any:
        asked.set()
        return None

    await ws.call("eth_blockNumber", [])
    node.tamper = swallow
    waiting = asyncio.create_task(ws.transport.send(b"[]", first_id=500, count=1))
    await asked.wait()
    await node.hang_up()
    with pytest.raises(RpcUnavailable, match="closed the connection"):
        await waiting
    node.tamper = lambda replies: replies
    assert bytes(await ws.call("eth_blockNumber", [])) == b'"0x10"'


async def test_http_announces_no_heads(http: Endpoint) -> None:
    with pytest.raises(SubscriptionUnsupported):
        await http.transport.subscribe_new_heads()


async def test_a_node_without_subscriptions_says_so(ws: Endpoint) -> None:
    with pytest.raises(SubscriptionUnsupported):
        await ws.transport.subscribe_new_heads()


async def test_announcements_come_until_the_connection_ends(
    node: FakeNode, ws: Endpoint
) -> None:
    node.methods["eth_subscribe"] = lambda params: "0x1"
    hints = await ws.transport.subscribe_new_heads()
    await node.announce()
    await anext(hints)
    waiting = asyncio.ensure_future(anext(hints))
    waiting.cancel()
    await asyncio.wait([waiting])
    await node.announce()
    await anext(hints)
    await node.hang_up()
    with pytest.raises(RpcUnavailable):
        await anext(hints)
