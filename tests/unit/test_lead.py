"""Of several nodes the one with most of the chain is followed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from indexer.chain.endpoints import Endpoint, Endpoints
from indexer.chain.lead import Lead
from indexer.chain.tip import head_of
from indexer.errors import RpcError, RpcUnavailable
from tests.support.fakenode import FakeNode, Refusal, running
from tests.support.replies import block


class Node(FakeNode):
    def __init__(self, head: int) -> None:
        super().__init__()
        self.head = head
        self.is_down = False
        self.methods = {
            "eth_chainId": lambda _: "0x1",
            "eth_blockNumber": lambda _: hex(self.head),
            "eth_getBlockByNumber": lambda params: block(int(params[0], 16)),
            "refuse": self._refuse,
        }

    def _refuse(self, _params: list[object]) -> None:
        raise Refusal(-32602, "invalid")

    def answer(self, body: object) -> object:
        return {"down": True} if self.is_down else super().answer(body)

    @property
    def asked(self) -> int:
        return sum(method == "eth_blockNumber" for method, _ in self.calls)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


async def made(stack: AsyncExitStack, clock: Clock, *nodes: Node) -> Lead:
    urls = [(await stack.enter_async_context(running(node))).url for node in nodes]
    endpoints = await stack.enter_async_context(Endpoints.from_urls(urls, timeout=20))
    return Lead(endpoints, clock)


async def test_the_first_is_followed_while_none_has_more(
    stack: AsyncExitStack, clock: Clock
) -> None:
    first, second = Node(100), Node(100)
    lead = await made(stack, clock, first, second)
    for _ in range(5):
        head = await lead.head(wanted=101)
        assert (head.endpoint.name, head.number) == (lead.current.name, 100)
        assert head.endpoint.name.endswith(first.url.rpartition(":")[2])
    # The other one is looked at as time goes by, not each time.
    assert second.asked == 1
    clock.now += 1
    await lead.head(wanted=101)
    assert second.asked == 2


async def test_one_with_more_is_followed_until_it_falls_behind(
    stack: AsyncExitStack, clock: Clock
) -> None:
    first, second = Node(100), Node(100)
    lead = await made(stack, clock, first, second)
    preferred = (await lead.head(wanted=101)).endpoint
    second.head = 125
    assert (await lead.head(wanted=101)).number == 100
    clock.now += 1
    head = await lead.head(wanted=101)
    assert head.number == 125
    assert head.endpoint is not preferred
    first.head = 125
    clock.now += 1
    assert (await lead.head(wanted=126)).endpoint is head.endpoint
    first.head = 126
    clock.now += 1
    assert (await lead.head(wanted=126)).endpoint is preferred


async def test_one_that_is_no_further_than_what_is_stored_is_not_turned_to(
    stack: AsyncExitStack, clock: Clock
) -> None:
    first, second = Node(90), Node(95)
    lead = await made(stack, clock, first, second)
    assert (await lead.head(wanted=101)).number == 90
    assert (await lead.head(wanted=95)).number == 90
    clock.now += 1
    assert (await lead.head(wanted=95)).number == 95


async def test_one_that_does_not_answer_is_left_for_another_at_once(
    stack: AsyncExitStack, clock: Clock
) -> None:
    first, second = Node(100), Node(99)
    lead = await made(stack, clock, first, second)
    await lead.head(wanted=101)
    first.is_down = True
    assert (await lead.head(wanted=101)).number == 99
    first.is_down = False
    second.is_down = True
    clock.now += 5
    assert (await lead.head(wanted=101)).number == 100


async def test_one_that_fails_in_what_it_is_asked_is_left_alone_for_a_while(
    stack: AsyncExitStack, clock: Clock
) -> None:
    first, second = Node(100), Node(100)
    lead = await made(stack, clock, first, second)
    preferred = (await lead.head(wanted=101)).endpoint

    async def refused(endpoint: Endpoint) -> None:
        await endpoint.call("refuse", [])

    with pytest.raises(RpcError):
        await lead.ask(preferred, refused)
    other = (await lead.head(wanted=101)).endpoint
    assert other is not preferred
    assert await lead.ask(other, head_of) == 100
    assert [head.endpoint for head in await lead.look_around()] == [other]
    clock.now += 1
    heads = await lead.look_around()
    assert [head.endpoint for head in heads] == [other, preferred]


async def test_the_highest_stands_first_and_among_equals_the_followed_one(
    stack: AsyncExitStack, clock: Clock
) -> None:
    nodes = [Node(100), Node(102), Node(101), Node(102)]
    lead = await made(stack, clock, *nodes)
    heads = await lead.look_around()
    assert [head.number for head in heads] == [102, 102, 101, 100]
    lead.follow(heads[1].endpoint)
    again = await lead.look_around()
    assert again[0] == heads[1]
    assert again[1] == heads[0]


async def test_where_none_answers_it_says_why(
    stack: AsyncExitStack, clock: Clock
) -> None:
    nodes = [Node(100), Node(100)]
    lead = await made(stack, clock, *nodes)
    await lead.head(wanted=101)
    for node in nodes:
        node.is_down = True
    with pytest.raises(RpcUnavailable):
        await lead.head(wanted=101)
