"""Reorganisations of every depth: the tables become the new chain, at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from tests.support.following import Reader, following
from tests.support.reader import differences

HEIGHT = 300
START = 220


@pytest.fixture
def node() -> Iterator[Devnode]:
    config = DevnodeConfig(profile="mixed", height=HEIGHT, finality_depth=90)
    with running_devnode(config) as running:
        yield running


@pytest.mark.parametrize("depth", [1, 2, 5, 64])
@pytest.mark.parametrize("moved", [False, True], ids=["other", "moved"])
async def test_c5_the_tables_become_the_new_chain_at_once(
    node: Devnode, database_url: str, depth: int, moved: bool
) -> None:
    with Reader(database_url):
        async with following(database_url, node.ws_url, start=START) as it:
            await it.until_tip(node.url)
            old_tip = node.chain.hash_at(HEIGHT)
            node.reorg(depth, moved=moved)
            await it.until_tip(node.url)
            assert await it.reorgs() == [
                (HEIGHT - depth, depth, old_tip, node.chain.hash_at(HEIGHT + 1))
            ]
            node.mine(3)
            await it.until_tip(node.url)
    assert differences(node.url, database_url, range(START, HEIGHT + 5)) == []


async def test_c5_coverage_says_what_is_stored_after_it(
    node: Devnode, database_url: str
) -> None:
    async with following(database_url, node.ws_url, start=START) as it:
        await it.until_tip(node.url)
        await it.rows(
            "update indexer.coverage set proven = stored, unprovable = stored"
        )
        await it.follower_stopped()
        # What was proven of replaced blocks is not proven of their successors.
        node.reorg(5)
        node.mine(1)
    async with following(database_url, node.ws_url, works=False) as it:
        await it.until_block(node.url)
        assert await it.rows(
            "select dataset, stored::text, proven::text, unprovable::text "
            "from indexer.coverage order by dataset"
        ) == [
            # The successors are proven in their turn; nobody has proven their events.
            ("blocks", "{[220,303)}", "{[220,303)}", "{[220,296)}"),
            ("events", "{[220,296)}", "{[220,296)}", "{[220,296)}"),
        ]


async def test_c5_twice_in_a_row_and_back_to_the_first_fork(
    node: Devnode, database_url: str
) -> None:
    with Reader(database_url):
        async with following(database_url, node.url, start=START) as it:
            await it.until_tip(node.url)
            first = node.chain.hash_at(HEIGHT)
            node.reorg(3)
            node.reorg(2)
            await it.until_tip(node.url)
            # The salt of the beginning gives the blocks of the beginning.
            node.chain.fork(HEIGHT - 3, 0)
            node.mine(1)
            await it.until_tip(node.url)
            assert node.chain.hash_at(HEIGHT) == first
            reorgs = await it.reorgs()
    assert reorgs[0][2] == first
    assert {each[0] for each in reorgs} <= {HEIGHT - 3, HEIGHT - 1}
    assert [each[3] for each in reorgs[:-1]] == [each[2] for each in reorgs[1:]]
    assert differences(node.url, database_url, range(START, HEIGHT + 4)) == []


async def test_c5_while_the_follower_is_down_also_past_finality(
    node: Devnode, database_url: str
) -> None:
    with Reader(database_url):
        async with following(database_url, node.url, start=START) as it:
            await it.until_tip(node.url)
            await it.until_final(HEIGHT - 90)
        # What was stored at the tip was never final, however long ago that is.
        node.reorg(5)
        node.mine(200)
        async with following(database_url, node.url) as it:
            await it.until_tip(node.url)
            [reorg] = await it.reorgs()
            assert reorg[:2] == (HEIGHT - 5, 5)
            assert await it.value("select final_number from indexer.chain") > HEIGHT
    assert differences(node.url, database_url, range(START, HEIGHT + 202)) == []


async def test_c5_a_fork_as_long_as_the_stored_chain_is_followed_if_it_stays(
    node: Devnode, database_url: str
) -> None:
    async with following(database_url, node.url, start=START) as it:
        await it.until_tip(node.url)
        node.chain.fork(HEIGHT - 2, 7)
        await it.until_tip(node.url)
        [reorg] = await it.reorgs()
        assert reorg[:2] == (HEIGHT - 2, 2)
    assert differences(node.url, database_url, range(START, HEIGHT + 1)) == []


async def test_c5_the_whole_stored_run_may_be_replaced_above_the_finalized_height(
    node: Devnode, database_url: str
) -> None:
    async with following(database_url, node.url, start=HEIGHT - 2) as it:
        await it.until_tip(node.url)
        node.reorg(5)
        await it.until_tip(node.url)
        [reorg] = await it.reorgs()
        assert reorg[:2] == (HEIGHT - 3, 3)
    assert differences(node.url, database_url, range(HEIGHT - 2, HEIGHT + 2)) == []
