"""Hints may be dropped, come early or never: the cursor decides, height by height."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from indexer.devnode.faults.fault import Fault
from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from tests.support.following import Reader, following
from tests.support.reader import differences

HEIGHT = 200
START = 190


@pytest.fixture
def node() -> Iterator[Devnode]:
    config = DevnodeConfig(profile="sparse", height=HEIGHT, finality_depth=50)
    with running_devnode(config) as running:
        yield running


async def test_heads_that_are_not_announced_are_stored_all_the_same(
    node: Devnode, database_url: str
) -> None:
    node.faults.add(Fault(kind="skip_heads", count=3))
    with Reader(database_url):
        async with following(database_url, node.ws_url, start=START) as it:
            await it.until_tip(node.url)
            for _ in range(3):
                node.mine(5)
                await it.until_tip(node.url)
    assert differences(node.url, database_url, range(START, HEIGHT + 16)) == []


async def test_a_head_announced_before_it_can_be_fetched_is_waited_for(
    node: Devnode, database_url: str
) -> None:
    with Reader(database_url):
        async with following(database_url, node.ws_url, start=START) as it:
            await it.until_tip(node.url)
            node.faults.add(
                Fault(
                    kind="null",
                    method="eth_getBlockByNumber",
                    from_height=HEIGHT + 1,
                    times=12,
                )
            )
            node.mine(1)
            await it.until_tip(node.url)
            assert await it.reorgs() == []
    assert differences(node.url, database_url, range(START, HEIGHT + 2)) == []


async def test_a_node_that_is_gone_is_waited_for_or_stood_in_for(
    node: Devnode, database_url: str
) -> None:
    config = DevnodeConfig(profile="sparse", height=HEIGHT, finality_depth=50)
    with running_devnode(config) as first:
        async with following(database_url, first.url, node.url, start=START) as it:
            await it.until_tip(node.url)
            first.faults.add(Fault(kind="drop"))
            node.mine(3)
            await it.until_tip(node.url)
            first.faults.clear()
            node.faults.add(Fault(kind="status", status=502))
            first.mine(4)
            await it.until_tip(first.url)
        node.faults.clear()
        assert differences(first.url, database_url, range(START, HEIGHT + 5)) == []
