"""The node's chain: provable by other libraries, and the same every time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from indexer.devnode.chain import Chain
from indexer.devnode.config import DevnodeConfig
from indexer.devnode.hashes import PIECE, anchors_of
from indexer.errors import ConfigError
from tests.support import consensus

# Enough heights of each profile to meet every shape of block it has.
_SAMPLES = [("sparse", range(120)), ("mixed", range(40)), ("dense", range(3))]
_PROFILES = ("sparse", "mixed", "dense")


def _chain(profile: str = "mixed", **settings: Any) -> Chain:
    return Chain(DevnodeConfig(profile=profile, height=1000, **settings))


def _block(chain: Chain, height: int) -> Any:
    return json.loads(chain.block_json(height, True))


def _receipts(chain: Chain, height: int) -> Any:
    return json.loads(chain.receipts_json(height))


def _all_json(chain: Chain, heights: list[int]) -> dict[int, tuple[bytes, ...]]:
    return {
        height: (
            chain.block_json(height, True),
            chain.block_json(height, False),
            chain.receipts_json(height),
        )
        for height in heights
    }


@pytest.fixture(scope="module")
def mixed() -> list[tuple[Any, Any]]:
    chain = _chain()
    return [(_block(chain, h), _receipts(chain, h)) for h in range(120)]


@pytest.mark.parametrize(("profile", "heights"), _SAMPLES)
def test_every_hash_root_and_bloom_is_what_other_libraries_compute(
    profile: str, heights: range
) -> None:
    chain = _chain(profile)
    for height in heights:
        block, receipts = _block(chain, height), _receipts(chain, height)
        logs = [log for receipt in receipts for log in receipt["logs"]]
        assert consensus.header_hash(block) == block["hash"]
        assert consensus.transactions_root(block) == block["transactionsRoot"]
        assert consensus.receipts_root(receipts) == block["receiptsRoot"]
        assert consensus.withdrawals_root(block) == block["withdrawalsRoot"]
        assert consensus.logs_bloom(logs) == block["logsBloom"]
        assert consensus.block_size(block) == int(block["size"], 16)
        for receipt in receipts:
            assert consensus.logs_bloom(receipt["logs"]) == receipt["logsBloom"]


@pytest.mark.parametrize(("profile", "heights"), _SAMPLES)
def test_transaction_hashes_are_those_of_their_encoding(
    profile: str, heights: range
) -> None:
    chain = _chain(profile)
    for height in heights:
        block = _block(chain, height)
        hashes = [item["hash"] for item in block["transactions"]]
        assert hashes == [consensus.transaction_hash(t) for t in block["transactions"]]
        block["transactions"] = hashes
        assert block == json.loads(chain.block_json(height, False))


@pytest.mark.parametrize(("profile", "heights"), _SAMPLES)
def test_receipts_agree_with_the_block_and_its_transactions(
    profile: str, heights: range
) -> None:
    chain = _chain(profile)
    for height in heights:
        block, receipts = _block(chain, height), _receipts(chain, height)
        gas = blob_gas = log_index = 0
        pairs = zip(block["transactions"], receipts, strict=True)
        for index, (transaction, receipt) in enumerate(pairs):
            assert transaction["transactionIndex"] == hex(index)
            for name in ("blockHash", "blockNumber", "transactionIndex", "from", "to"):
                assert transaction[name] == receipt[name]
            assert receipt["blockHash"] == block["hash"]
            assert receipt["blockNumber"] == block["number"] == hex(height)
            assert receipt["transactionHash"] == transaction["hash"]
            assert receipt["effectiveGasPrice"] == transaction["gasPrice"]
            assert int(transaction["gasPrice"], 16) >= int(block["baseFeePerGas"], 16)
            assert int(receipt["gasUsed"], 16) <= int(transaction["gas"], 16)
            gas += int(receipt["gasUsed"], 16)
            blob_gas += int(receipt.get("blobGasUsed", "0x0"), 16)
            assert receipt["cumulativeGasUsed"] == hex(gas)
            created = None
            if transaction["to"] is None:
                created = consensus.created_address(
                    transaction["from"], transaction["nonce"]
                )
            assert receipt["contractAddress"] == created
            for log in receipt["logs"]:
                assert log["logIndex"] == hex(log_index)
                assert log["blockHash"] == block["hash"]
                assert log["blockNumber"] == block["number"]
                assert log["transactionHash"] == transaction["hash"]
                assert log["transactionIndex"] == hex(index)
                log_index += 1
        assert block["gasUsed"] == hex(gas)
        assert block["blobGasUsed"] == hex(blob_gas)
        assert gas <= int(block["gasLimit"], 16)


@pytest.mark.parametrize("profile", _PROFILES)
def test_the_same_seed_gives_the_same_bytes_in_any_order_of_asking(
    profile: str,
) -> None:
    heights = list(range(4 if profile == "dense" else 60))
    upward = _all_json(_chain(profile), heights)
    assert _all_json(_chain(profile), heights[::-1]) == upward
    # Without room for a single block everything is drawn again.
    assert _all_json(_chain(profile, cache_bytes=0), heights) == upward
    assert _all_json(_chain(profile, prepare=60), heights) == upward


@pytest.mark.parametrize(
    "other", [{"seed": 1}, {"chain_id": 1}, {"genesis_timestamp": 0}]
)
def test_another_seed_or_chain_id_is_another_chain(other: dict[str, Any]) -> None:
    one, two = _chain(), _chain(**other)
    assert all(one.hash_at(height) != two.hash_at(height) for height in range(30))


@pytest.mark.parametrize("profile", _PROFILES)
def test_parents_link_from_genesis_and_time_passes_by_slots(profile: str) -> None:
    chain = _chain(profile)
    parent = "0x" + "00" * 32
    for height in range(4 if profile == "dense" else 200):
        block = json.loads(chain.block_json(height, False))
        assert block["parentHash"] == parent
        assert int(block["timestamp"], 16) == 1_704_067_200 + 12 * height
        parent = block["hash"]


def test_genesis_may_be_at_time_zero() -> None:
    block = _block(_chain(genesis_timestamp=0), 0)
    assert block["timestamp"] == "0x0"
    assert consensus.header_hash(block) == block["hash"]


def test_a_cache_too_small_for_the_chain_is_begun_anew() -> None:
    small, large = _chain("dense", cache_bytes=1_500_000), _chain("dense")
    heights = [0, 1, 2, 3, 4, 5, 1, 5, 2]
    assert _all_json(small, heights) == _all_json(large, heights)


def test_sparse_blocks_are_nine_of_ten_empty_and_few_have_withdrawals() -> None:
    chain = _chain("sparse")
    blocks = [_block(chain, height) for height in range(1000)]
    used = [len(b["transactions"]) for b in blocks if b["transactions"]]
    assert len(used) in (99, 100)
    assert {*used} == {1, 2, 3, 4, 5}
    assert 0 < sum(bool(b["withdrawals"]) for b in blocks) < 50
    assert any(r["logs"] for h in range(1000) for r in _receipts(chain, h))
    assert all(
        chain.is_empty(h) == (not b["transactions"]) for h, b in enumerate(blocks)
    )


def test_dense_blocks_are_like_those_of_mainnet() -> None:
    chain = _chain("dense")
    for height in range(1, 5):
        block, receipts = _block(chain, height), _receipts(chain, height)
        logs = [log for receipt in receipts for log in receipt["logs"]]
        assert len(block["transactions"]) == 180
        assert len(logs) == 380
        assert len(block["withdrawals"]) == 16
        assert {t["type"] for t in block["transactions"]} == {
            "0x0",
            "0x1",
            "0x2",
            "0x3",
            "0x4",
        }
        assert {len(log["topics"]) for log in logs} == {0, 1, 2, 3, 4}
        size = len(chain.block_json(height, True)) + len(chain.receipts_json(height))
        assert 620_000 < size < 660_000


def test_mixed_blocks_show_every_type_of_transaction(
    mixed: list[tuple[Any, Any]],
) -> None:
    transactions = [t for block, _ in mixed for t in block["transactions"]]
    assert {t["type"] for t in transactions} == {"0x0", "0x1", "0x2", "0x3", "0x4"}
    assert {t["type"] for t in transactions if t["to"] is None} >= {"0x0", "0x2"}
    legacy = [t for t in transactions if t["type"] == "0x0"]
    assert {"chainId" in t for t in legacy} == {True, False}
    assert {int(t["v"], 16) for t in legacy if "chainId" not in t} == {27, 28}
    shapes = [len(t.get("accessList", [])) for t in transactions]
    assert {0, 1, 2} <= {*shapes}
    assert {len(t.get("authorizationList", [])) for t in transactions} == {0, 1, 2, 3}
    assert {len(t.get("blobVersionedHashes", [])) for t in transactions} == {0, 1, 2}
    assert any(int(t["value"], 16) == 2**256 - 1 for t in transactions)
    assert any(int(t["nonce"], 16) == 2**64 - 2 for t in transactions)


def test_mixed_blocks_show_every_shape_of_data_and_logs(
    mixed: list[tuple[Any, Any]],
) -> None:
    receipts = [r for _, listed in mixed for r in listed]
    logs = [log for r in receipts for log in r["logs"]]
    inputs = {len(t["input"]) // 2 - 1 for b, _ in mixed for t in b["transactions"]}
    sizes = {len(log["data"]) // 2 - 1 for log in logs}
    assert {r["status"] for r in receipts} == {"0x0", "0x1"}
    assert {len(log["topics"]) for log in logs} == {0, 1, 2, 3, 4}
    assert {0, 1, 32} <= sizes
    assert {33, 31} <= sizes
    assert {0, 1} <= inputs
    assert any(size > 4 and (size - 4) % 32 for size in inputs)
    assert {(bool(b["transactions"]), bool(b["withdrawals"])) for b, _ in mixed} == {
        (True, True),
        (True, False),
        (False, True),
        (False, False),
    }


def test_logs_carry_a_timestamp_only_when_asked_to() -> None:
    plain, later = _chain(), _chain(log_timestamps=True)
    height = next(h for h in range(50) if any(r["logs"] for r in _receipts(plain, h)))
    block = _block(later, height)
    for receipts, stamp in (
        (_receipts(plain, height), None),
        (_receipts(later, height), block["timestamp"]),
    ):
        logs = [log for receipt in receipts for log in receipt["logs"]]
        assert {log.get("blockTimestamp") for log in logs} == {stamp}


@pytest.mark.parametrize("profile", _PROFILES)
def test_a_fork_replaces_what_is_above_and_keeps_the_links(profile: str) -> None:
    end = 6 if profile == "dense" else 40
    chain = _chain(profile)
    before = _all_json(chain, list(range(end)))
    hashes = [chain.hash_at(height) for height in range(end)]
    chain.fork(3, 7)
    after = _all_json(chain, list(range(end)))
    for height in range(end):
        if height <= 3:
            assert after[height] == before[height]
            continue
        block = json.loads(after[height][0])
        parent = json.loads(after[height - 1][0])
        assert block["parentHash"] == parent["hash"]
        assert consensus.header_hash(block) == block["hash"]
        assert chain.height_of(hashes[height]) is None
        assert chain.height_of(chain.hash_at(height)) == height
    # A node that starts on the fork has the same blocks, and back is back.
    assert _all_json(_chain(profile, forks=((3, 7),)), list(range(end))) == after
    chain.fork(3, 0)
    assert _all_json(chain, list(range(end))) == before
    assert chain.height_of(hashes[end - 1]) == end - 1


def test_a_reorg_replaces_the_last_blocks_and_adds_one() -> None:
    chain = _chain()
    before = [chain.hash_at(height) for height in range(1001)]
    assert chain.reorg(5) == 995
    assert chain.head == 1001
    after = [chain.hash_at(height) for height in range(1001)]
    assert after[:996] == before[:996]
    assert not {*after[996:]} & {*before[996:]}
    chain.reorg(3)
    again = [chain.hash_at(height) for height in range(1001)]
    assert again[:999] == after[:999]
    assert not {*again[999:]} & {*before[999:], *after[999:]}


def test_genesis_is_never_replaced() -> None:
    chain = Chain(DevnodeConfig(height=3))
    with pytest.raises(ValueError, match="no such depth"):
        chain.reorg(4)
    with pytest.raises(ValueError, match="genesis"):
        chain.fork(-1, 1)


def test_hashes_are_found_up_to_the_head_only() -> None:
    chain = _chain()
    chain.generate(1010)
    assert chain.height_of(chain.hash_at(1000)) == 1000
    assert chain.height_of(chain.hash_at(1001)) is None
    chain.mine(1)
    assert chain.height_of(chain.hash_at(1001)) == 1001
    chain.set_head(900)
    assert chain.height_of(chain.hash_at(901)) is None


def test_transactions_are_found_by_hash_in_a_long_chain() -> None:
    chain = Chain(DevnodeConfig(profile="sparse", height=30_000))
    chain.generate(30_000)
    for height in (7, 10_000, 20_000):
        used = next(h for h in range(height, height + 20) if not chain.is_empty(h))
        for index, item in enumerate(_block(chain, used)["transactions"]):
            wanted = bytes.fromhex(item["hash"][2:])
            assert chain.place_of(wanted) == (used, index)
    assert chain.place_of(bytes(32)) is None
    assert chain.height_of(bytes(32)) is None
    assert chain.height_of(chain.hash_at(29_999)) == 29_999


@pytest.mark.parametrize(
    "settings",
    [
        {"profile": "crowded"},
        {"height": -1},
        {"chain_id": 0},
        {"finality_depth": -1},
        {"block_time": -1.0},
    ],
)
def test_settings_that_no_chain_can_have_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        DevnodeConfig(**settings)


@pytest.mark.parametrize("profile", ["mixed", "sparse"])
def test_far_blocks_are_made_from_a_known_hash_and_are_those_of_the_chain(
    profile: str,
) -> None:
    config = DevnodeConfig(profile=profile, height=2_050_000)
    known = anchors_of(config)
    assert len(known) * PIECE >= 2_000_000
    chain = Chain(config)
    last = len(known) * PIECE - 1
    if profile == "sparse":
        # From genesis, and from the hash before the last. Mixed blocks take ten times
        # as long.
        for height, anchor in ((PIECE - 1, known[0]), (last, known[-1])):
            assert chain.hash_at(height) == anchor
            assert chain.height_of(anchor) == (height if height < last else None)
        assert chain.generated == PIECE
    for height in (PIECE, 2_000_000):
        parent = known[height // PIECE - 1]
        assert _block(chain, height)["parentHash"] == f"0x{parent.hex()}"


def test_far_blocks_are_others_after_a_fork_below_them() -> None:
    top = PIECE + 50
    chain = Chain(DevnodeConfig(profile="sparse", height=top))
    before = [chain.hash_at(height) for height in range(PIECE, top)]
    chain.fork(PIECE + 10, 1)
    after = [chain.hash_at(height) for height in range(PIECE, top)]
    assert after[:11] == before[:11]
    assert not {*after[11:]} & {*before[11:]}
    assert chain.generated == 0
    chain.fork(10, 2)
    # Nothing is known of what is above, so all of it is made.
    assert chain.hash_at(PIECE) != before[0]
    assert chain.generated == PIECE + 1


def test_of_other_chains_no_far_hash_is_known() -> None:
    assert anchors_of(DevnodeConfig(profile="sparse"))
    others = (
        DevnodeConfig(profile="sparse", seed=1),
        DevnodeConfig(profile="sparse", chain_id=5),
        DevnodeConfig(profile="sparse", slot_seconds=2),
        DevnodeConfig(profile="sparse", huge_height=7),
        DevnodeConfig(profile="exotic"),
    )
    assert {anchors_of(other) for other in others} == {()}
