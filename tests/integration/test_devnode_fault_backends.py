"""Faults of batches and of backends, on the wire; and heads that are announced."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from indexer.devnode.faults import FAULT_HEADER, KINDS, Fault
from indexer.devnode.faults.kind import BatchKind
from indexer.devnode.server import Devnode, DevnodeConfig
from tests.support.devnode import Client, call

_HEIGHT = 200


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


def _batch(size: int) -> list[Any]:
    return [call(at, "eth_getBlockByNumber", hex(at), False) for at in range(size)]


async def _numbers(client: Client, fault: str, size: int = 6) -> list[tuple[Any, Any]]:
    """Return id and number of each reply to a batch under a fault."""
    client.headers = {FAULT_HEADER: fault}
    replies = await client.send(_batch(size))
    return [(reply["id"], int(reply["result"]["number"], 16)) for reply in replies]


async def test_a_batch_comes_back_in_another_order_or_not_whole(client: Client) -> None:
    whole = [(at, at) for at in range(6)]
    shuffled = await _numbers(client, "batch_shuffled")
    assert shuffled != whole
    assert sorted(shuffled) == whole
    assert await _numbers(client, "batch_shuffled", size=2) == [(1, 1), (0, 0)]
    assert await _numbers(client, "batch_short") == whole[1:]
    assert await _numbers(client, "batch_short:count=4") == whole[4:]
    assert await _numbers(client, "batch_doubled") == [*whole, whole[0]]
    assert await _numbers(client, "batch_repeated") == [whole[1], *whole[1:]]


async def test_the_ids_of_a_batch_are_wrong(client: Client) -> None:
    assert (await _numbers(client, "batch_swapped"))[:3] == [(0, 1), (1, 0), (2, 2)]
    assert (await _numbers(client, "batch_same_id")) == [(0, at) for at in range(6)]
    foreign = await _numbers(client, "foreign_id")
    assert foreign == [(987654321987, 0), *[(at, at) for at in range(1, 6)]]
    assert (await client.reply("eth_chainId"))["id"] == 987654321987


async def test_one_error_stands_for_a_whole_batch(client: Client) -> None:
    client.headers = {FAULT_HEADER: "batch_one_error:code=-32005,message=busy"}
    reply = await client.send(_batch(3))
    error = {"code": -32005, "message": "busy"}
    assert reply == {"jsonrpc": "2.0", "id": None, "error": error}


async def test_results_past_a_size_are_errors(client: Client) -> None:
    _, body, _ = await client.post(_batch(1))
    client.headers = {FAULT_HEADER: f"response_limit:count={3 * len(body)}"}
    replies = await client.send(_batch(8))
    failed = [reply["id"] for reply in replies if "error" in reply]
    assert failed == list(range(failed[0], 8))
    assert 0 < failed[0] < 7
    assert replies[-1]["error"] == {"code": -32003, "message": "response too large"}
    client.headers = {FAULT_HEADER: "response_limit:count=100"}
    assert await client.code("eth_getBlockByNumber", "0x1", True) == -32003


@pytest.mark.parametrize(
    "kind", [name for name, kind in KINDS.items() if isinstance(kind, BatchKind)]
)
async def test_a_batch_of_one_and_notifications_survive_every_disorder(
    client: Client, kind: str
) -> None:
    client.headers = {FAULT_HEADER: kind}
    assert len(await client.send(_batch(1))) == 1
    quiet = {"jsonrpc": "2.0", "method": "eth_chainId"}
    assert await client.send([quiet, quiet]) is None
    replies = await client.send([quiet, *_batch(1), quiet, 7])
    assert replies


async def test_a_lagging_backend_hides_what_is_above_its_head(client: Client) -> None:
    top = await client.block(_HEIGHT)
    await client.result("devnode_fault", "lag")
    assert await client.result("eth_blockNumber") == hex(_HEIGHT - 25)
    latest = await client.result("eth_getBlockByNumber", "latest", False)
    assert latest["number"] == hex(_HEIGHT - 25)
    final = await client.result("eth_getBlockByNumber", "finalized", False)
    assert final["number"] == hex(_HEIGHT - 64 - 25)
    above = hex(_HEIGHT - 24)
    assert await client.result("eth_getBlockByNumber", above, True) is None
    assert await client.result("eth_getBlockReceipts", above) is None
    assert await client.result("eth_getBlockByHash", top["hash"], True) is None
    assert await client.result("eth_getBlockReceipts", top["hash"]) is None
    one = top["transactions"][0]["hash"]
    assert await client.result("eth_getTransactionReceipt", one) is None
    assert await client.code("eth_getLogs", {"toBlock": above}) == -32602
    assert (await client.block(_HEIGHT - 25))["number"] == hex(_HEIGHT - 25)
    await client.result("devnode_mine", 2)
    assert await client.result("eth_blockNumber") == hex(_HEIGHT - 23)


async def test_a_head_goes_back_while_its_blocks_stay(client: Client) -> None:
    await client.result("devnode_fault", "head_back:times=1,method=eth_blockNumber")
    top = await client.block(_HEIGHT)
    assert await client.result("eth_blockNumber") == hex(_HEIGHT - 100)
    assert await client.result("eth_blockNumber") == hex(_HEIGHT)
    await client.result("devnode_fault", "head_back")
    assert await client.block(_HEIGHT) == top
    assert await client.faults() == {"head_back": 2}


async def test_a_backend_is_on_another_fork_like_a_node_that_is(
    client: Client, session: aiohttp.ClientSession
) -> None:
    truth = [await client.block(height) for height in (150, 151)]
    await client.result("devnode_fault", "other_fork:height=150,seed=9")
    async with Devnode(DevnodeConfig(height=_HEIGHT, forks=((150, 9),))) as other:
        forked = Client(other.url, session)
        for height in (0, 150, 151, _HEIGHT):
            block = await client.block(height)
            assert block == await forked.block(height)
            assert await client.receipts(height) == await forked.receipts(height)
            again = await client.result("eth_getBlockByHash", block["hash"], True)
            assert again == block
    assert await client.block(150) == truth[0]
    assert (await client.block(151))["parentHash"] == truth[1]["parentHash"]
    gone = ("eth_getBlockByHash", truth[1]["hash"], True)
    assert await client.result(*gone) is None
    await client.result("devnode_mine")
    assert (await client.block(_HEIGHT + 1))["number"] == hex(_HEIGHT + 1)
    await client.result("devnode_clearFaults")
    assert await client.result(*gone) == truth[1]


async def test_a_backend_is_of_another_chain(client: Client) -> None:
    genesis, ten = await client.block(0), await client.block(10)
    await client.result("devnode_fault", "other_chain_id:times=2")
    assert await client.result("eth_chainId") == hex(1338)
    assert await client.block(0) == genesis
    await client.result("devnode_fault", "other_genesis")
    assert await client.result("eth_chainId") == hex(1337)
    assert (await client.block(0))["hash"] != genesis["hash"]
    assert (await client.block(10))["hash"] != ten["hash"]
    assert (await client.block(10))["parentHash"] == (await client.block(9))["hash"]


async def test_another_block_is_given_than_was_asked_for(client: Client) -> None:
    lower, asked = await client.block(9), await client.block(10)
    await client.result("devnode_fault", "other_block")
    assert await client.block(10) == lower
    assert await client.result("eth_getBlockByHash", asked["hash"], True) == lower
    receipts = await client.receipts(10)
    assert {r["blockNumber"] for r in receipts} == {hex(9)}


async def test_two_nodes_serve_one_chain_each_with_its_own_faults(
    node: Devnode, client: Client, session: aiohttp.ClientSession
) -> None:
    lag = Fault(kind="lag", count=25)
    config = DevnodeConfig(faults=(lag,))
    async with Devnode(config, chain=node.chain) as behind:
        other = Client(behind.url, session)
        assert await other.result("eth_blockNumber") == hex(_HEIGHT - 25)
        await client.result("devnode_reorg", 3)
        assert await other.result("eth_blockNumber") == hex(_HEIGHT - 24)
        await other.result("devnode_clearFaults")
        assert await other.block(_HEIGHT) == await client.block(_HEIGHT)
    # The chain is the first node's, and still open.
    assert (await client.block(5))["number"] == "0x5"


async def test_announced_heads_skip_heights_or_lag_behind(
    node: Devnode, client: Client, session: aiohttp.ClientSession
) -> None:
    async with session.ws_connect(node.ws_url) as socket:
        await socket.send_json(call(1, "eth_subscribe", "newHeads"))
        await socket.receive_json()

        async def announced(count: int) -> list[int]:
            heads = [(await socket.receive_json())["params"] for _ in range(count)]
            return [int(head["result"]["number"], 16) for head in heads]

        await client.result("devnode_fault", "skip_heads:count=2")
        await client.result("devnode_mine", 10)
        assert await announced(4) == [201, 204, 207, 210]
        await client.result("devnode_clearFaults")
        await client.result("devnode_fault", "lag:count=4")
        await client.result("devnode_mine", 2)
        assert await announced(2) == [207, 208]
        await client.result("devnode_clearFaults")
        await client.result("devnode_mine")
        assert await announced(1) == [213]


@pytest.mark.parametrize("depth", [1, 5, 65, _HEIGHT])
async def test_a_reorg_may_be_of_any_depth_also_below_the_finalized_block(
    client: Client, depth: int
) -> None:
    final = await client.result("eth_getBlockByNumber", "finalized", False)
    kept, lost = await client.block(_HEIGHT - depth), await client.block(_HEIGHT)
    assert await client.result("devnode_reorg", depth) == hex(_HEIGHT + 1)
    assert await client.block(_HEIGHT - depth) == kept
    first = await client.block(_HEIGHT - depth + 1)
    assert first["parentHash"] == kept["hash"]
    assert (await client.block(_HEIGHT))["hash"] != lost["hash"]
    again = await client.block(int(final["number"], 16), full=False)
    assert (again == final) == (depth <= 64)
