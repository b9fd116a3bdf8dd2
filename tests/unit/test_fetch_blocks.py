"""Blocks that are fetched are the ones asked for, whole, and of one chain."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from indexer.chain.endpoint import Endpoint
from indexer.chain.fetch import fetch_blocks
from indexer.errors import InconsistentResponse, MalformedResponse, NotYetAvailable
from tests.support.chainnode import HEIGHTS, Chain
from tests.support.fakenode import running
from tests.support.fixtures import needs_fixtures, result
from tests.support.replies import block, hash_of


@pytest.fixture
async def chain() -> AsyncIterator[Chain]:
    node = Chain()
    async with running(node):
        yield node


@pytest.fixture
async def endpoint(chain: Chain) -> AsyncIterator[Endpoint]:
    made = Endpoint(chain.url, timeout=20)
    yield made
    await made.close()


async def test_blocks_come_in_the_order_asked_for(
    chain: Chain, endpoint: Endpoint
) -> None:
    data = await fetch_blocks(endpoint, [8, 5, 6])
    assert [each.block.number for each in data] == [8, 5, 6]
    assert [len(each.transactions) for each in data] == [2, 2, 2]
    assert await fetch_blocks(endpoint, []) == []


async def test_c4_a_height_without_a_block_is_not_there_yet(endpoint: Endpoint) -> None:
    with pytest.raises(NotYetAvailable, match="no block 9") as caught:
        await fetch_blocks(endpoint, [8, 9])
    assert caught.value.block_number == 9


async def test_c1_a_block_of_another_number_is_refused(
    chain: Chain, endpoint: Endpoint
) -> None:
    chain.blocks[6] = chain.blocks[7]
    with pytest.raises(InconsistentResponse, match="asked for block 6, got block 7"):
        await fetch_blocks(endpoint, HEIGHTS)


async def test_c1_blocks_that_do_not_link_are_refused(
    chain: Chain, endpoint: Endpoint
) -> None:
    chain.blocks[7] = block(7, parentHash=hash_of(66))
    with pytest.raises(InconsistentResponse, match="block 7 has the parent") as caught:
        await fetch_blocks(endpoint, HEIGHTS)
    assert caught.value.block_number == 7
    assert len(await fetch_blocks(endpoint, [5, 7])) == 2


async def test_a_block_short_of_a_transaction_is_refused(
    chain: Chain, endpoint: Endpoint
) -> None:
    bent = block(6, transactions=3)
    del bent["transactions"][1]
    chain.blocks[6] = bent
    with pytest.raises(InconsistentResponse, match="none with index 1"):
        await fetch_blocks(endpoint, [6])


async def test_hashes_instead_of_transactions_are_refused(
    chain: Chain, endpoint: Endpoint
) -> None:
    chain.blocks[6] = block(6, transactions=1) | {"transactions": [hash_of(1)]}
    with pytest.raises(MalformedResponse, match=r"field transactions\[0\] of 6"):
        await fetch_blocks(endpoint, [6])


@needs_fixtures
async def test_c1_recorded_neighbours_link(chain: Chain, endpoint: Endpoint) -> None:
    for number in (6541, 6542):
        chain.blocks[number] = result(f"cronos/{number}/block.json")
    first, second = await fetch_blocks(endpoint, [6541, 6542])
    assert second.block.parent_hash == first.block.hash
    # The same transaction is in both.
    hashes = {row.hash for row in first.transactions}
    assert hashes & {row.hash for row in second.transactions}
