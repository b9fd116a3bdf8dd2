"""Headers of every layout hash as another library has them; others say what lacks."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import rlp  # type: ignore[import-untyped]
from eth_hash.auto import keccak

from indexer.chain.verify import ETHEREUM, Commitment, Proof, prove_block, prove_header
from indexer.errors import InconsistentResponse, ProofFailed
from indexer.rows import BlockData, BlockRow, WithdrawalRow
from tests.support.samples import block_data

NO_UNCLES = keccak(rlp.encode([]))
EMPTY_ROOT = keccak(rlp.encode(b""))
TIME = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
LATER = (
    *("base_fee_per_gas", "withdrawals_root", "blob_gas_used", "excess_blob_gas"),
    *("parent_beacon_block_root", "requests_hash"),
)


def row(**fields: Any) -> BlockRow:
    """Return a row of an empty block without its hash."""
    block = block_data(7, transactions=0).block._replace(
        timestamp=TIME,
        uncles=(),
        sha3_uncles=NO_UNCLES,
        logs_bloom=bytes(256),
        transactions_root=EMPTY_ROOT,
        receipts_root=EMPTY_ROOT,
        extra=None,
    )
    values: dict[str, Any] = dict.fromkeys(LATER)
    return block._replace(**values | fields)


def fields(block: BlockRow, seconds: int | None = None) -> list[Any]:
    """Return the 15 fields of a header until London, for another library."""
    time = int(TIME.timestamp()) if seconds is None else seconds
    return [
        *(block.parent_hash, block.sha3_uncles, block.miner, block.state_root),
        *(block.transactions_root, block.receipts_root, block.logs_bloom),
        *(block.difficulty, block.number, block.gas_limit, block.gas_used, time),
        *(block.extra_data, block.mix_hash, block.nonce),
    ]


def proof_of(block: BlockRow, header: list[Any]) -> Proof:
    return prove_header(block._replace(hash=keccak(rlp.encode(header))), ETHEREUM)


def proves(block: BlockRow, header: list[Any]) -> bool:
    return proof_of(block, header).proven == {Commitment.HEADER}


# No fork has brought only one of the two blob fields.
@pytest.mark.parametrize("last", [0, 1, 2, 4, 5, 6])
def test_c3_the_header_of_every_fork_is_proven(last: int) -> None:
    values: dict[str, Any] = {
        "base_fee_per_gas": 7,
        "withdrawals_root": b"\x01" * 32,
        "blob_gas_used": 0,
        "excess_blob_gas": 131_072,
        "parent_beacon_block_root": b"\x02" * 32,
        "requests_hash": b"\x03" * 32,
    }
    present = {name: values[name] for name in LATER[:last]}
    block = row(**present)
    assert proves(block, [*fields(block), *present.values()])
    if last:
        with pytest.raises(ProofFailed, match="hash of its header"):
            proves(block, fields(block))


def test_c3_a_field_that_a_chain_skips_is_empty_in_its_header() -> None:
    block = row(requests_hash=b"\x03" * 32)
    assert proves(block, [*fields(block), b"", b"", b"", b"", b"", b"\x03" * 32])


@pytest.mark.parametrize("name", ["blob_gas_used", "excess_blob_gas"])
def test_c3_a_blob_field_that_is_left_out_is_not_taken_for_its_zero(name: str) -> None:
    present = dict.fromkeys(LATER, 0) | {
        key: b"\x01" * 32
        for key in ("withdrawals_root", "parent_beacon_block_root", "requests_hash")
    }
    whole = row(**present)
    header = [*fields(whole), *(present[key] for key in LATER)]
    assert proves(whole, header)
    left_out: dict[str, Any] = {name: None}
    proof = proof_of(whole._replace(**left_out), header)
    assert proof.proven == frozenset()
    assert Commitment.HEADER in proof.unprovable
    left_out["parent_beacon_block_root"] = None
    no_root = whole._replace(**left_out)
    assert proof_of(no_root, header).proven == frozenset()


def test_c3_what_amsterdam_adds_is_in_the_hash() -> None:
    present = dict.fromkeys(LATER, 5) | {
        name: b"\x01" * 32
        for name in ("withdrawals_root", "parent_beacon_block_root", "requests_hash")
    }
    more = {"blockAccessListHash": "0x" + "0a" * 32, "slotNumber": "0x1f4"}
    block = row(**present, extra=json.dumps(more))
    later = [present[name] for name in LATER]
    assert proves(block, [*fields(block), *later, b"\x0a" * 32, 500])
    with pytest.raises(ProofFailed):
        proves(block._replace(extra=None), [*fields(block), *later, b"\x0a" * 32, 500])


def test_c3_a_time_that_is_none_is_read_from_where_its_number_is_kept() -> None:
    seconds = 2**63
    block = row(timestamp=None, extra=json.dumps({"timestamp": hex(seconds)}))
    assert proves(block, fields(block, seconds))


@pytest.mark.parametrize(
    "seal",
    [
        {"step": "307831686", "signature": "0x" + "5a" * 65},
        {"step": 307_831_686, "signature": "5a" * 65},
        {"step": "0x12592386", "signature": "0x" + "5a" * 65},
        {"sealFields": ["0x8412592386", "0xb841" + "5a" * 65]},
    ],
)
def test_c3_an_aura_seal_is_read_however_a_node_gives_it(seal: dict[str, Any]) -> None:
    extra = json.dumps({"author": "0x" + "00" * 20, **seal})
    block = row(nonce=None, mix_hash=None, extra=extra)
    header = [*fields(block)[:13], 307_831_686, b"\x5a" * 65]
    assert proves(block, header)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("miner", "the node gives no miner"),
        ("difficulty", "the node gives no difficulty"),
        ("gas_used", "the node gives no gasUsed"),
        ("extra_data", "the node gives no extraData"),
        ("transactions_root", "the node gives no transactionsRoot"),
        ("timestamp", "the node gives no timestamp"),
        ("nonce", "the node gives neither mixHash and nonce nor another seal"),
    ],
)
def test_c3_a_header_that_lacks_a_field_cannot_be_proven(
    name: str, reason: str
) -> None:
    proof = proof_of(row(**{name: None}), [])
    assert proof.proven == frozenset()
    assert proof.unprovable == {Commitment.HEADER: reason}


@pytest.mark.parametrize(
    "altered",
    [
        {"gas_used": -1},
        {"difficulty": -1000},
        {"timestamp": TIME + timedelta(microseconds=1)},
        {"timestamp": datetime(1969, 12, 31, tzinfo=UTC)},
        {"extra": '{"slotNumber": "0xzz"}'},
        {"extra": "[]"},
    ],
)
def test_c3_what_no_header_can_hold_is_refused(altered: dict[str, Any]) -> None:
    with pytest.raises(InconsistentResponse, match="block 7 cannot be real"):
        proof_of(row(**altered), [])


def test_c3_a_list_of_uncles_that_the_header_denies_is_refused() -> None:
    block = row(uncles=(b"\x01" * 32,))
    with pytest.raises(InconsistentResponse, match="lists 1 uncles"):
        proves(block, fields(block))
    block = row(sha3_uncles=b"\x01" * 32)
    with pytest.raises(InconsistentResponse, match="lists 0 uncles"):
        proves(block, fields(block))
    assert proves(block._replace(uncles=None), fields(block))


def test_c3_withdrawals_that_the_header_knows_nothing_of_are_refused() -> None:
    block = row()
    block = block._replace(hash=keccak(rlp.encode(fields(block))))
    paid = [WithdrawalRow(7, 1, 1, bytes(20), 1, None)]
    with pytest.raises(InconsistentResponse, match="but no root of them"):
        prove_block(BlockData(block, [], paid, 0), ETHEREUM)


def test_the_error_says_both_hashes_and_that_nothing_was_stored() -> None:
    block = row(hash=b"\x01" * 32)
    with pytest.raises(ProofFailed) as caught:
        prove_header(block, ETHEREUM)
    error = caught.value
    assert error.block_number == 7
    assert error.commitment == "header"
    assert error.expected == b"\x01" * 32
    assert error.computed == keccak(rlp.encode(fields(block)))
    text = str(error)
    assert error.expected.hex() in text
    assert error.computed.hex() in text
    assert "was not stored" in text


def test_the_error_shows_of_a_bloom_where_it_begins_to_differ() -> None:
    wrong = bytes(200) + b"\x01" + bytes(55)
    text = str(ProofFailed(7, "bloom", bytes(256), wrong, what="logs bloom"))
    assert "0x0000000000000000 at byte 200" in text
    assert "0x0100000000000000 at byte 200" in text
    assert len(text) < 250
    assert "at byte 2" in str(ProofFailed(7, "bloom", bytes(64), bytes(2)))
