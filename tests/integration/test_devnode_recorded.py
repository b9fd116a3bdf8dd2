"""A node that serves blocks from elsewhere."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from indexer.devnode.chain import Chain
from indexer.devnode.config import DevnodeConfig
from indexer.devnode.faults import FAULT_HEADER, Fault
from indexer.devnode.recorded import RecordedChain
from indexer.devnode.server import Devnode, running_devnode
from tests.support import fixtures
from tests.support.devnode import Client, call

Pair = tuple[Any, list[Any]]


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def _pairs(heights: range, **settings: Any) -> list[Pair]:
    chain = Chain(DevnodeConfig(height=heights.stop, **settings))
    return [
        (json.loads(chain.block_json(h, True)), json.loads(chain.receipts_json(h)))
        for h in heights
    ]


async def test_given_blocks_are_served_as_the_node_that_made_them_serves_them(
    session: aiohttp.ClientSession,
) -> None:
    pairs = _pairs(range(40))
    recorded = RecordedChain(pairs, chain_id=1337, finality_depth=10)
    config = DevnodeConfig(height=39, finality_depth=10)
    async with Devnode(config) as made, Devnode(chain=recorded) as given:
        one, two = Client(made.url, session), Client(given.url, session)
        busy = pairs[8][0]
        first = busy["transactions"][0]["hash"]
        for ask in (
            ("eth_chainId",),
            ("eth_blockNumber",),
            ("eth_getBlockByNumber", "0x8", True),
            ("eth_getBlockByNumber", "0x8", False),
            ("eth_getBlockByNumber", "safe", False),
            ("eth_getBlockByNumber", "finalized", True),
            ("eth_getBlockByNumber", "0x28", True),
            ("eth_getBlockByHash", busy["hash"], True),
            ("eth_getBlockReceipts", "0x8"),
            ("eth_getBlockReceipts", busy["hash"]),
            ("eth_getBlockTransactionCountByNumber", "0x8"),
            ("eth_getTransactionByHash", first),
            ("eth_getTransactionReceipt", first),
            ("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest"}),
            ("eth_getLogs", {"blockHash": busy["hash"]}),
        ):
            assert await one.reply(*ask) == await two.reply(*ask)


async def test_heights_without_a_block_are_null(
    session: aiohttp.ClientSession,
) -> None:
    pairs = _pairs(range(12))
    recorded = RecordedChain([pairs[3], pairs[5]], chain_id=5)
    async with Devnode(chain=recorded) as node:
        client = Client(node.url, session)
        assert await client.result("eth_blockNumber") == "0x5"
        for height in (0, 4, 6):
            assert await client.block(height) is None
            assert await client.receipts(height) is None
        assert await client.block(3) == pairs[3][0]
        logs = [log for at in (3, 5) for r in pairs[at][1] for log in r["logs"]]
        assert await client.result("eth_getLogs", {"fromBlock": "0x0"}) == logs


async def test_other_blocks_replace_those_from_their_height_on(
    session: aiohttp.ClientSession,
) -> None:
    pairs, others = _pairs(range(12)), _pairs(range(12), forks=((7, 1),))
    recorded = RecordedChain(pairs[:10], chain_id=1337)
    async with Devnode(chain=recorded) as node:
        client = Client(node.url, session)
        recorded.put(others[8:12])
        assert await client.result("eth_blockNumber") == "0xb"
        assert await client.block(7) == pairs[7][0]
        for height in range(8, 12):
            assert await client.block(height) == others[height][0]
            assert await client.receipts(height) == others[height][1]
        for block, _ in pairs[8:10]:
            ask = ("eth_getBlockByHash", block["hash"], True)
            assert await client.result(*ask) is None
            for transaction in block["transactions"]:
                ask = ("eth_getTransactionReceipt", transaction["hash"], True)
                assert await client.result(*ask[:2]) is None
        recorded.put(pairs[8:10])
        assert await client.result("eth_blockNumber") == "0x9"
        assert await client.block(9) == pairs[9][0]


async def test_recorded_blocks_can_be_hidden_and_mined_but_not_forked(
    session: aiohttp.ClientSession,
) -> None:
    recorded = RecordedChain(_pairs(range(10)), chain_id=1337)
    recorded.set_head(6)
    async with Devnode(chain=recorded) as node, session.ws_connect(node.ws_url) as ws:
        client = Client(node.url, session)
        await ws.send_json(call(1, "eth_subscribe", "newHeads"))
        await ws.receive_json()
        assert await client.block(7) is None
        assert await client.result("devnode_mine", 2) == "0x8"
        numbers = [(await ws.receive_json())["params"]["result"] for _ in range(2)]
        assert [head["number"] for head in numbers] == ["0x7", "0x8"]
        assert await client.code("devnode_mine", 2) == -32602
        assert await client.code("devnode_setHead", 77) == -32602
        assert await client.code("devnode_reorg", 1) == -32602
        assert await client.code("devnode_fork", 1, 1) == -32602
        assert await client.code("devnode_fault", "other_genesis") == -32602
        client.headers = {FAULT_HEADER: "other_fork"}
        assert (await client.post(call(1, "eth_chainId")))[0] == 400


async def test_a_recorded_chain_is_mined_on_a_timer_up_to_its_end(
    session: aiohttp.ClientSession,
) -> None:
    recorded = RecordedChain(_pairs(range(10)), chain_id=1337)
    recorded.set_head(4)
    config = DevnodeConfig(block_time=0.001)
    async with Devnode(config, chain=recorded) as node:
        client = Client(node.url, session)
        while await client.result("eth_blockNumber") != "0x9":
            pass
        assert await client.block(9)


async def test_faults_strike_recorded_blocks_too(
    session: aiohttp.ClientSession,
) -> None:
    pairs = _pairs(range(30))
    recorded = RecordedChain(pairs, chain_id=1337)
    faults = (Fault(kind="short_receipts"), Fault(kind="lag", count=5))
    async with Devnode(DevnodeConfig(faults=faults), chain=recorded) as node:
        client = Client(node.url, session)
        assert await client.receipts(8) == pairs[8][1][:-1]
        assert await client.result("eth_blockNumber") == hex(24)
        await client.result("devnode_fault")
        client.headers = {FAULT_HEADER: "other_block"}
        assert await client.block(8) == pairs[7][0]
        # There is none below the lowest.
        assert await client.block(0) == pairs[0][0]


@fixtures.needs_fixtures
async def test_replies_of_real_nodes_are_served_as_they_were_recorded(
    session: aiohttp.ClientSession,
) -> None:
    pairs = [
        (fixtures.result(f"{at}/block.json"), fixtures.result(f"{at}/receipts.json"))
        for at in ("cronos/6541", "cronos/6542")
    ]
    async with Devnode(chain=RecordedChain(pairs, chain_id=25)) as node:
        client = Client(node.url, session)
        assert await client.result("eth_chainId") == "0x19"
        for height, (block, receipts) in zip((6541, 6542), pairs, strict=True):
            assert await client.block(height) == block
            assert await client.receipts(height) == receipts
            listed = await client.block(height, full=False)
            hashes = [item["hash"] for item in block["transactions"]]
            assert listed == {**block, "transactions": hashes}


def test_a_recorded_chain_is_served_from_a_thread() -> None:
    recorded = RecordedChain(_pairs(range(3)), chain_id=1337)
    with running_devnode(chain=recorded) as node:
        recorded.put(_pairs(range(3, 5)))
        assert node.chain.head == 4
