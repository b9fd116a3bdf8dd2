"""What one node fails to give comes from another, at a bounded number of requests."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack

import pytest

from indexer.chain.capabilities import knows_finalized, look_at_history
from indexer.chain.endpoints import Endpoint, Endpoints
from indexer.chain.gather import TRIES, Gathered, Gathering
from indexer.devnode.faults import parse_faults
from indexer.devnode.server import Devnode, DevnodeConfig
from indexer.errors import (
    BlockRefused,
    InconsistentResponse,
    IndexerError,
    PrunedHistory,
    RpcError,
    RpcUnavailable,
)

CONFIG = DevnodeConfig(profile="mixed", height=200)
HEIGHTS = range(10, 30)

Answer = Callable[[int], int | IndexerError]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.chain.gather._LONGEST_PAUSE_SECONDS", 0.001)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


class Nodes:
    """Some nodes, and what each is to answer about a height."""

    def __init__(self, devnodes: list[Devnode], endpoints: Endpoints) -> None:
        self.devnodes = devnodes
        self.endpoints = endpoints
        self.answers: dict[Endpoint, Answer] = {}
        self.asked: dict[Endpoint, list[int]] = {each: [] for each in endpoints.all}

    def __getitem__(self, at: int) -> Endpoint:
        return self.endpoints.all[at]

    async def fetch(
        self, endpoint: Endpoint, heights: Sequence[int]
    ) -> list[int | IndexerError]:
        self.asked[endpoint] += heights
        return [self.answers.get(endpoint, _itself)(each) for each in heights]

    async def gather(self, heights: Sequence[int] = HEIGHTS) -> Gathered[int]:
        gathering = Gathering(self.endpoints, self.fetch, _itself)
        return await gathering.gather(heights)


def _itself(height: int) -> int:
    return height


def _lies_about(*wrong: int) -> Answer:
    def answer(height: int) -> int | IndexerError:
        if height in wrong:
            return InconsistentResponse("a lie", block_number=height)
        return height

    return answer


def _always(error: IndexerError) -> Answer:
    return lambda _height: error


async def _nodes(stack: AsyncExitStack, count: int) -> Nodes:
    devnodes = [await stack.enter_async_context(Devnode(CONFIG)) for _ in range(count)]
    endpoints = Endpoints.from_urls([each.url for each in devnodes], timeout=20)
    return Nodes(devnodes, await stack.enter_async_context(endpoints))


async def test_c7_only_what_a_node_lies_about_is_asked_of_another(
    stack: AsyncExitStack,
) -> None:
    nodes = await _nodes(stack, 2)
    nodes.answers[nodes[0]] = _lies_about(12, 20)
    assert await nodes.gather() == (list(HEIGHTS), {})
    assert nodes.asked[nodes[1]] == [12, 20]
    assert nodes[0].trust.is_lost
    assert not nodes[1].trust.is_lost
    await nodes.gather()
    assert nodes.asked[nodes[0]] == list(HEIGHTS)


async def test_c8_what_all_nodes_lie_about_is_named_after_a_few_tries(
    stack: AsyncExitStack,
) -> None:
    nodes = await _nodes(stack, 2)
    for endpoint in nodes.endpoints.all:
        nodes.answers[endpoint] = _lies_about(12)
    found, failed = await nodes.gather()
    assert found == [each for each in HEIGHTS if each != 12]
    assert list(failed) == [12]
    assert isinstance(failed[12], InconsistentResponse)
    for endpoint in nodes.endpoints.all:
        assert nodes.asked[endpoint].count(12) == TRIES
        # Nobody did better, so nobody is to blame.
        assert not endpoint.trust.is_lost


async def test_c8_a_block_that_makes_a_node_fail_is_no_outage(
    stack: AsyncExitStack,
) -> None:
    nodes = await _nodes(stack, 1)
    nodes.answers[nodes[0]] = lambda height: (
        RpcUnavailable("crashed") if height == 12 else height
    )
    found, failed = await nodes.gather()
    assert len(found) == len(HEIGHTS) - 1
    assert isinstance(failed[12], BlockRefused)
    assert "crashed" in str(failed[12])


async def test_q7_nodes_that_answer_nothing_of_a_range_are_an_outage(
    stack: AsyncExitStack,
) -> None:
    nodes = await _nodes(stack, 1)
    nodes.answers[nodes[0]] = _always(RpcUnavailable("down"))
    with pytest.raises(RpcUnavailable, match="down"):
        await nodes.gather()
    assert len(nodes.asked[nodes[0]]) == TRIES * len(HEIGHTS)


async def test_history_that_was_thrown_away_is_not_asked_for_again(
    stack: AsyncExitStack,
) -> None:
    nodes = await _nodes(stack, 2)
    nodes.answers[nodes[0]] = _always(PrunedHistory("pruned"))
    assert (await nodes.gather()).failed == {}
    assert len(nodes.asked[nodes[0]]) == len(HEIGHTS)
    assert nodes[0].history_from == HEIGHTS[-1] + 1
    await nodes.gather()
    assert len(nodes.asked[nodes[0]]) == len(HEIGHTS)
    nodes.answers[nodes[1]] = _always(PrunedHistory("pruned too"))
    _, failed = await nodes.gather([11])
    assert isinstance(failed[11], PrunedHistory)


async def test_a_node_of_another_chain_that_comes_late_is_done_without(
    stack: AsyncExitStack,
) -> None:
    nodes = await _nodes(stack, 2)
    nodes.devnodes[0].faults.add(parse_faults("drop")[0])
    await nodes.endpoints.check_chain()
    nodes.devnodes[0].faults.clear()
    nodes.devnodes[0].faults.add(parse_faults("other_genesis")[0])
    nodes[0].breaker.succeeded()
    assert await nodes.gather() == (list(HEIGHTS), {})
    assert nodes.asked[nodes[0]] == []
    assert nodes[0].trust.is_lost


async def test_an_error_that_no_asking_changes_is_the_blocks_own(
    stack: AsyncExitStack,
) -> None:
    nodes = await _nodes(stack, 1)
    refusal = RpcError("eth_getBlockByNumber", -32602, "invalid argument")
    nodes.answers[nodes[0]] = _always(refusal)
    assert (await nodes.gather([11, 12])).failed == {11: refusal, 12: refusal}


@pytest.mark.parametrize(
    ("faults", "is_whole"),
    [
        ("", True),
        ("pruned:height=100", False),
        ("pruned_receipts:height=100", False),
        ("pruned_receipts:height=3", True),
        ("lag:count=199", True),
        ("unsupported", True),
        ("error", True),
    ],
)
async def test_a_nodes_history_is_looked_at_where_it_is_wanted(
    stack: AsyncExitStack, faults: str, is_whole: bool
) -> None:
    nodes = await _nodes(stack, 1)
    await nodes.endpoints.check_chain()
    for fault in parse_faults(faults):
        nodes.devnodes[0].faults.add(fault)
    # A block with transactions.
    await look_at_history(nodes.endpoints, 23)
    assert nodes[0].history_from == (0 if is_whole else 24)


async def test_whether_a_node_knows_the_finalized_tag_is_found_out(
    stack: AsyncExitStack,
) -> None:
    nodes = await _nodes(stack, 1)
    assert await knows_finalized(nodes[0])
    nodes.devnodes[0].faults.add(
        parse_faults("error:code=-39001,message=Unknown block")[0]
    )
    assert not await knows_finalized(nodes[0])


async def test_p1_an_error_that_is_kept_holds_no_reply(stack: AsyncExitStack) -> None:
    nodes = await _nodes(stack, 1)

    class Reply:
        """Megabytes that a function has in hand when it fails."""

    replies: weakref.WeakSet[Reply] = weakref.WeakSet()

    def raised(height: int) -> IndexerError:
        reply = Reply()
        replies.add(reply)
        try:
            try:
                raise KeyError("a field")
            except KeyError as error:
                raise InconsistentResponse("a lie", block_number=height) from error
        except InconsistentResponse as error:
            return error

    nodes.answers[nodes[0]] = raised
    gathered = await nodes.gather([10, 11])

    assert sorted(gathered.failed) == [10, 11]
    gc.collect()
    assert len(replies) == 0
