"""Nodes stand in for each other, if they are of one chain; and where it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from indexer.chain.endpoints import ChainIdentity, Endpoint, Endpoints
from indexer.chain.tip import HeadWatcher, finalized_number, head_number
from indexer.errors import (
    ConfigError,
    NotYetAvailable,
    RpcError,
    RpcUnavailable,
    WrongChain,
)
from tests.support.fakenode import FakeNode, Refusal, running
from tests.support.replies import block, hash_of

IDENTITY = ChainIdentity(1, bytes.fromhex(hash_of(0)[2:]))


class Node(FakeNode):
    """A node of a chain, with a head and a finalized height that a test may move."""

    def __init__(self, chain_id: int = 1, genesis: str = "b1") -> None:
        super().__init__()
        self.head = 100
        self.finalized: int | None = 90
        self.is_down = False
        self.methods = {
            "eth_chainId": lambda params: hex(chain_id),
            "eth_blockNumber": lambda params: hex(self.head),
            "eth_getBlockByNumber": lambda params: self._block(params[0], genesis),
        }

    def _block(self, tag: str, genesis: str) -> dict[str, Any] | None:
        if tag == "finalized":
            return None if self.finalized is None else block(self.finalized)
        number = int(tag, 16)
        return block(number, hash=hash_of(number, genesis))

    def answer(self, body: Any) -> Any:
        return {"down": True} if self.is_down else super().answer(body)

    def asked(self, method: str) -> int:
        return sum(called == method for called, _ in self.calls)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


async def _serve(stack: AsyncExitStack, *nodes: Node, ws: bool = False) -> Endpoints:
    urls = []
    for node in nodes:
        await stack.enter_async_context(running(node))
        urls.append(node.ws_url if ws else node.url)
    return await stack.enter_async_context(Endpoints.from_urls(urls, timeout=20))


async def _name(endpoint: Endpoint) -> str:
    await endpoint.call("eth_blockNumber", [])
    return endpoint.name


def test_no_url_is_refused() -> None:
    with pytest.raises(ConfigError):
        Endpoints.from_urls([])


async def test_the_chain_is_known_by_its_id_and_genesis(stack: AsyncExitStack) -> None:
    endpoints = await _serve(stack, Node(), Node())
    assert await endpoints.check_chain() == IDENTITY
    assert await endpoints.check_chain(IDENTITY) == IDENTITY


@pytest.mark.parametrize("other", [Node(chain_id=5), Node(genesis="99")])
async def test_every_endpoint_of_another_chain_is_refused(
    stack: AsyncExitStack, other: Node
) -> None:
    endpoints = await _serve(stack, Node(), other)
    with pytest.raises(WrongChain, match="another --schema"):
        await endpoints.check_chain()


async def test_the_only_endpoint_of_another_chain_than_stored_is_refused(
    stack: AsyncExitStack,
) -> None:
    endpoints = await _serve(stack, Node(chain_id=5))
    with pytest.raises(WrongChain, match=r"serves chain 5 .* but chain 1 "):
        await endpoints.check_chain(IDENTITY)


async def test_an_endpoint_that_was_down_is_compared_before_its_first_use(
    stack: AsyncExitStack,
) -> None:
    first, second = Node(), Node(chain_id=5)
    second.is_down = True
    endpoints = await _serve(stack, first, second)
    assert await endpoints.check_chain() == IDENTITY
    second.is_down = False
    endpoints.all[1].breaker.succeeded()
    assert await endpoints.run(_name) == endpoints.all[0].name
    first.is_down = True
    with pytest.raises(WrongChain):
        await endpoints.run(_name)


async def test_no_endpoint_at_all_is_an_outage(stack: AsyncExitStack) -> None:
    node = Node()
    node.is_down = True
    endpoints = await _serve(stack, node)
    with pytest.raises(RpcUnavailable):
        await endpoints.check_chain()


async def test_work_is_done_anew_by_another_endpoint_when_one_fails(
    stack: AsyncExitStack,
) -> None:
    first, second = Node(), Node()
    endpoints = await _serve(stack, first, second)
    await endpoints.check_chain()
    first.is_down = True
    assert await endpoints.run(_name) == endpoints.all[1].name


async def test_c7_data_one_endpoint_cannot_give_comes_whole_from_another(
    stack: AsyncExitStack,
) -> None:
    endpoints = await _serve(stack, Node(), Node())
    tried = []

    async def work(endpoint: Endpoint) -> str:
        tried.append(endpoint.name)
        if len(tried) == 1:
            raise NotYetAvailable("not here", block_number=1)
        return endpoint.name

    assert await endpoints.run(work) == endpoints.all[1].name
    assert tried == [each.name for each in endpoints.all]


async def test_what_no_endpoint_can_give_is_the_last_ones_error(
    stack: AsyncExitStack,
) -> None:
    endpoints = await _serve(stack, Node(), Node())

    async def work(endpoint: Endpoint) -> None:
        await endpoint.call("eth_nothing", [])

    with pytest.raises(RpcError, match="eth_nothing"):
        await endpoints.run(work)


async def test_a_hiccup_is_waited_out(stack: AsyncExitStack) -> None:
    node = Node()
    endpoints = await _serve(stack, node)
    await endpoints.check_chain()
    node.is_down = True

    async def work(endpoint: Endpoint) -> int:
        try:
            await endpoint.call("eth_blockNumber", [])
        finally:
            node.is_down = False
        return node.asked("eth_blockNumber")

    assert await endpoints.run(work) == 1


async def test_head_and_finalized_are_what_the_node_says(
    stack: AsyncExitStack,
) -> None:
    node = Node()
    endpoints = await _serve(stack, node)
    assert await head_number(endpoints) == 100
    assert await finalized_number(endpoints, 7) == 90
    node.head = 3
    assert await head_number(endpoints) == 3


@pytest.mark.parametrize(
    "refusal",
    [None, Refusal(-32602, "unknown tag"), Refusal(-39001, "Unknown block"),
     Refusal(-32000, "finalized block not found")],
)  # fmt: skip
async def test_a_node_without_the_finalized_tag_needs_a_depth(
    stack: AsyncExitStack, refusal: Refusal | None
) -> None:
    node = Node()
    node.finalized = None
    plain = node.methods["eth_getBlockByNumber"]

    def refuse(params: list[Any]) -> Any:
        if params[0] == "finalized" and refusal is not None:
            raise refusal
        return plain(params)

    node.methods["eth_getBlockByNumber"] = refuse
    endpoints = await _serve(stack, node)
    assert await finalized_number(endpoints, None) is None
    assert await finalized_number(endpoints, 64) == 36
    assert await finalized_number(endpoints, 101) is None


async def test_a_watcher_that_polls_returns_when_the_head_changes(
    stack: AsyncExitStack,
) -> None:
    node = Node()
    watcher = HeadWatcher(await _serve(stack, node))
    await watcher.wait(30)
    asked_twice = asyncio.Event()
    before = node.asked("eth_blockNumber")

    def number(params: list[Any]) -> str:
        if node.asked("eth_blockNumber") >= before + 2:
            asked_twice.set()
        return hex(node.head)

    node.methods["eth_blockNumber"] = number
    waiting = asyncio.create_task(watcher.wait(30))
    await asked_twice.wait()
    assert not waiting.done()
    node.head += 1
    await waiting


async def test_a_watcher_returns_after_the_time_it_was_given(
    stack: AsyncExitStack,
) -> None:
    watcher = HeadWatcher(await _serve(stack, Node()))
    await watcher.wait(30)
    await watcher.wait(0)


async def test_a_watcher_returns_at_an_announcement(stack: AsyncExitStack) -> None:
    node = Node()
    node.methods["eth_subscribe"] = lambda params: "0x1"
    watcher = HeadWatcher(await _serve(stack, node, ws=True))
    await watcher.wait(30)
    asked = node.asked("eth_blockNumber")
    waiting = asyncio.create_task(watcher.wait(30))
    await node.announce()
    await waiting
    assert node.asked("eth_blockNumber") == asked


async def test_a_watcher_notices_heads_that_are_not_announced(
    stack: AsyncExitStack,
) -> None:
    node = Node()
    node.methods["eth_subscribe"] = lambda params: "0x1"
    watcher = HeadWatcher(await _serve(stack, node, ws=True))
    await watcher.wait(30)
    await watcher.wait(30)
    node.head += 1
    await watcher.wait(30)


async def test_a_watcher_subscribes_again_when_the_connection_was_lost(
    stack: AsyncExitStack,
) -> None:
    node = Node()
    node.methods["eth_subscribe"] = lambda params: "0x1"
    watcher = HeadWatcher(await _serve(stack, node, ws=True))
    await watcher.wait(30)
    await node.hang_up()
    while node.asked("eth_subscribe") < 2:
        await watcher.wait(0.1)
