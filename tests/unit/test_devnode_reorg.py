"""Transactions that a reorganisation moves to other blocks, and huge or odd blocks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from indexer.devnode.chain import Chain
from indexer.devnode.config import DevnodeConfig
from indexer.errors import ConfigError
from tests.support import consensus

_HEIGHT = 100


def _chain(profile: str = "mixed", **settings: Any) -> Chain:
    return Chain(DevnodeConfig(profile=profile, height=_HEIGHT, **settings))


def _block(chain: Chain, height: int) -> Any:
    return json.loads(chain.block_json(height, True))


def _receipts(chain: Chain, height: int) -> Any:
    return json.loads(chain.receipts_json(height))


def _prove(chain: Chain, height: int) -> None:
    """Check all of a block's hashes and roots with independent libraries."""
    block, receipts = _block(chain, height), _receipts(chain, height)
    logs = [log for receipt in receipts for log in receipt["logs"]]
    assert consensus.header_hash(block) == block["hash"]
    assert consensus.transactions_root(block) == block["transactionsRoot"]
    assert consensus.receipts_root(receipts) == block["receiptsRoot"]
    assert consensus.withdrawals_root(block) == block["withdrawalsRoot"]
    assert consensus.logs_bloom(logs) == block["logsBloom"]
    assert consensus.block_size(block) == int(block["size"], 16)
    assert [log["logIndex"] for log in logs] == [hex(at) for at in range(len(logs))]
    for transaction, receipt in zip(block["transactions"], receipts, strict=True):
        assert consensus.transaction_hash(transaction) == transaction["hash"]
        assert receipt["transactionHash"] == transaction["hash"]
        assert receipt["effectiveGasPrice"] == transaction["gasPrice"]
        assert int(transaction["gasPrice"], 16) >= int(block["baseFeePerGas"], 16)
    assert int(block["gasUsed"], 16) <= int(block["gasLimit"], 16)


def _places(chain: Chain, heights: range) -> dict[str, tuple[int, int]]:
    """Return where each transaction of some blocks stands."""
    return {
        transaction["hash"]: (height, index)
        for height in heights
        for index, transaction in enumerate(_block(chain, height)["transactions"])
    }


@pytest.mark.parametrize("profile", ["sparse", "mixed", "exotic"])
@pytest.mark.parametrize("depth", [1, 5, 40])
def test_a_reorg_moves_the_same_transactions_to_other_blocks(
    profile: str, depth: int
) -> None:
    chain = _chain(profile)
    first = _HEIGHT - depth + 1
    before = _places(chain, range(first, _HEIGHT + 1))
    assert chain.reorg(depth, moved=True) == _HEIGHT - depth
    after = _places(chain, range(first, chain.head + 1))
    assert after.keys() == before.keys()
    if len(before) > 1:
        assert after != before
    for wanted, place in after.items():
        assert chain.place_of(bytes.fromhex(wanted[2:])) == place
    for height in range(first, chain.head + 1):
        _prove(chain, height)
        parent = _block(chain, height - 1)
        assert _block(chain, height)["parentHash"] == parent["hash"]


def test_a_dense_reorg_keeps_within_the_gas_limit() -> None:
    chain = Chain(DevnodeConfig(profile="dense", height=4))
    before = _places(chain, range(3, 5))
    chain.reorg(2, moved=True)
    after = _places(chain, range(3, 6))
    assert after.keys() == before.keys()
    for height in (3, 4, 5):
        _prove(chain, height)


def test_moved_transactions_move_on_in_the_next_reorg_and_go_with_a_plain_one() -> None:
    chain, twin = _chain(), _chain()
    before = _places(chain, range(91, _HEIGHT + 1))
    for one in (chain, twin):
        one.reorg(10, moved=True)
        one.reorg(4, moved=True)
    heights = range(91, chain.head + 1)
    assert _places(chain, heights).keys() == before.keys()
    hashes = [chain.hash_at(height) for height in heights]
    assert hashes == [twin.hash_at(height) for height in heights]
    for height in heights:
        _prove(chain, height)
    chain.reorg(12)
    assert _places(chain, range(91, chain.head + 1)).keys().isdisjoint(before)
    _prove(chain, chain.head)


def test_what_moved_is_served_also_without_a_cache() -> None:
    kept, drawn = _chain("sparse"), _chain("sparse", cache_bytes=0)
    for chain in (kept, drawn):
        chain.reorg(30, moved=True)
    for height in range(70, kept.head + 1):
        assert kept.block_json(height, True) == drawn.block_json(height, True)
        assert kept.receipts_json(height) == drawn.receipts_json(height)


def test_exotic_blocks_have_transactions_of_types_that_nobody_knows() -> None:
    chain = _chain("exotic")
    types = set()
    for height in range(40):
        _prove(chain, height)
        types |= {item["type"] for item in _block(chain, height)["transactions"]}
        assert all(
            receipt["type"] == transaction["type"]
            for receipt, transaction in zip(
                _receipts(chain, height),
                _block(chain, height)["transactions"],
                strict=True,
            )
        )
    assert types >= {"0x0", "0x1", "0x2", "0x3", "0x4", "0x7e", "0x6a", "0x5", "0x7f"}


def test_one_block_is_as_huge_as_asked_for_and_can_be_proven() -> None:
    chain = _chain("sparse", huge_height=7, huge_bytes=1_500_000)
    plain = _chain("sparse")
    assert 1_350_000 < len(chain.block_json(7, True)) < 1_650_000
    _prove(chain, 7)
    for height in (6, 8, 9):
        _prove(chain, height)
        assert len(chain.block_json(height, True)) == len(
            plain.block_json(height, True)
        )
    assert chain.hash_at(6) == plain.hash_at(6)


def test_a_block_of_fifty_megabytes_is_made_by_default() -> None:
    chain = _chain("sparse", huge_height=3)
    assert 48_000_000 < len(chain.block_json(3, True)) < 52_000_000
    assert len(_block(chain, 3)["transactions"]) == len(_receipts(chain, 3))


def test_the_genesis_block_is_never_huge() -> None:
    with pytest.raises(ConfigError, match="huge"):
        DevnodeConfig(huge_height=0)
