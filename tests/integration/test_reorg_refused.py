"""What is no reorganisation deletes nothing; what may not be one stops the follower."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest

from indexer.devnode.faults.fault import Fault
from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from indexer.errors import FinalityViolated, IndexerError
from tests.support.following import Following, following
from tests.support.reader import differences

HEIGHT = 300
START = 260
BLOCK = "eth_getBlockByNumber"


@pytest.fixture
def node() -> Iterator[Devnode]:
    config = DevnodeConfig(profile="sparse", height=HEIGHT, finality_depth=20)
    with running_devnode(config) as running:
        yield running


@pytest.fixture
def twin() -> Iterator[Devnode]:
    """Another node of the same chain."""
    config = DevnodeConfig(profile="sparse", height=HEIGHT, finality_depth=20)
    with running_devnode(config) as running:
        yield running


@pytest.fixture
async def it(node: Devnode, database_url: str) -> AsyncIterator[Following]:
    async with following(database_url, node.url, start=START) as made:
        await made.until_tip(node.url)
        await made.until_final(HEIGHT - 20)
        yield made


async def written(it: Following) -> list[tuple[object, ...]]:
    """Return which transaction wrote each block: what was rewritten has another."""
    return await it.rows(
        "select number, hash, xmin::text from indexer.blocks order by number"
    )


@pytest.mark.parametrize(
    "fault",
    [
        Fault(kind="lag", count=25),
        Fault(kind="head_back", count=100),
        Fault(kind="null", method=BLOCK, from_height=1),
        Fault(kind="error", method=BLOCK, from_height=1),
    ],
    ids=lambda fault: fault.kind,
)
async def test_c5_a_node_behind_or_without_an_answer_deletes_nothing(
    node: Devnode, database_url: str, it: Following, fault: Fault
) -> None:
    before = await written(it)
    await it.follower_stopped()
    node.faults.add(fault)
    async with following(database_url, node.url, finality_depth=20) as again:
        await again.until_asked(node, 4)
        node.mine(2)
        await again.until_asked(node, 4)
        assert await written(again) == before
        node.faults.clear()
        await again.until_tip(node.url)
        assert (await written(again))[: len(before)] == before
        assert await again.reorgs() == []
    assert differences(node.url, database_url, range(START, HEIGHT + 3)) == []


async def test_c5_a_syncing_node_deletes_nothing(
    node: Devnode, database_url: str, it: Following
) -> None:
    before = await written(it)
    node.chain.set_head(0)
    await it.until_asked(node, 4)
    for height in range(10, HEIGHT, 50):
        node.chain.set_head(height)
        await it.until_asked(node, 2)
    assert await written(it) == before
    node.chain.set_head(HEIGHT + 1)
    await it.until_tip(node.url)
    assert await it.reorgs() == []


async def test_c5_a_shorter_fork_waits_until_it_is_as_long(
    node: Devnode, database_url: str, it: Following
) -> None:
    before = await written(it)
    node.chain.fork(HEIGHT - 3, 5)
    node.chain.set_head(HEIGHT - 1)
    await it.until_asked(node, 4)
    assert await written(it) == before
    await it.follower_stopped()
    # A restart looks at the tail, and finds no more than that.
    async with following(database_url, node.url) as again:
        await again.until_asked(node, 6)
        assert await written(again) == before
        node.mine(3)
        await again.until_tip(node.url)
        [reorg] = await again.reorgs()
        assert reorg[:2] == (HEIGHT - 3, 3)
    assert differences(node.url, database_url, range(START, HEIGHT + 3)) == []


async def test_c6_a_reorganisation_below_the_finalized_height_stops_it(
    node: Devnode, database_url: str, it: Following
) -> None:
    before = await written(it)
    node.reorg(25)
    with pytest.raises(FinalityViolated, match=r"indexer verify --from \d+ .*--repair"):
        await it.task
    assert await written(it) == before
    async with following(database_url, node.url) as again:
        with pytest.raises(FinalityViolated):
            await again.task
        assert await written(again) == before
        assert await again.reorgs() == []


async def test_c6_without_a_finalized_height_it_asks_for_a_depth(
    database_url: str,
) -> None:
    config = DevnodeConfig(profile="sparse", height=HEIGHT, finality_depth=None)
    with running_devnode(config) as node:
        async with following(database_url, node.url, start=START) as it:
            await it.until_tip(node.url)
            node.reorg(3)
            with pytest.raises(IndexerError, match="--finality-depth"):
                await it.task
            assert await it.reorgs() == []
        async with following(database_url, node.url, finality_depth=20) as it:
            await it.until_tip(node.url)
            assert len(await it.reorgs()) == 1
        assert differences(node.url, database_url, range(START, HEIGHT + 2)) == []


async def test_c5_of_two_forks_the_longer_one_wins_whoever_is_asked_first(
    node: Devnode, twin: Devnode, database_url: str
) -> None:
    async with following(database_url, node.url, twin.url, start=START) as it:
        await it.until_tip(node.url)
        # As long as ours: kept, for one of them still gives it.
        node.chain.fork(HEIGHT - 4, 9)
        before = await written(it)
        await it.until_asked(node, 4)
        await it.until_asked(twin, 4)
        assert await written(it) == before
        node.mine(1)
        await it.until_tip(node.url)
        twin.mine(3)
        await it.until_tip(twin.url)
        node.mine(1)
        await it.until_asked(node, 4)
        assert [each[:2] for each in await it.reorgs()] == [
            (HEIGHT - 4, 4),
            (HEIGHT - 4, 5),
        ]
        # The first one comes over to the fork that won, and both go on.
        node.chain.fork(HEIGHT - 4, 0)
        node.mine(5)
        await it.until_tip(node.url)
        assert len(await it.reorgs()) == 2
    head = node.chain.head
    assert differences(node.url, database_url, range(START, head + 1)) == []


async def test_c5_a_node_that_lags_is_not_waited_for_while_another_does_not(
    node: Devnode, twin: Devnode, database_url: str
) -> None:
    async with following(database_url, node.url, twin.url, start=START) as it:
        await it.until_tip(node.url)
        twin.mine(40)
        await it.until_tip(twin.url)
        # Behind by 40, and then on a fork of its own.
        node.reorg(2)
        await it.until_asked(node, 4)
        assert await it.reorgs() == []
    assert differences(twin.url, database_url, range(START, HEIGHT + 41)) == []


async def test_c6_a_node_that_contradicts_what_is_final_is_left_alone_for_another(
    node: Devnode, twin: Devnode, database_url: str
) -> None:
    async with following(database_url, node.url, twin.url, start=START) as it:
        await it.until_tip(node.url)
        await it.until_final(HEIGHT - 20)
        node.reorg(25)
        await it.until_asked(node, 4)
        twin.mine(1)
        await it.until_tip(twin.url)
        assert await it.reorgs() == []
    assert differences(twin.url, database_url, range(START, HEIGHT + 2)) == []


async def test_c5_a_load_balancer_over_two_forks_corrupts_nothing(
    node: Devnode, database_url: str
) -> None:
    async with AsyncExitStack() as stack:
        it = await stack.enter_async_context(
            following(database_url, node.url, start=START)
        )
        await it.until_tip(node.url)
        for turn in range(2):
            # Each second answer comes from a backend on another fork, or behind.
            node.faults.add(
                Fault(kind="other_fork", height=HEIGHT - 3, seed=11 + turn, times=40)
            )
            node.faults.add(Fault(kind="lag", count=turn, times=40))
            node.mine(1)
            await it.until_asked(node, 10)
            node.faults.clear()
            await it.until_tip(node.url)
    head = node.chain.head
    assert differences(node.url, database_url, range(START, head + 1)) == []
