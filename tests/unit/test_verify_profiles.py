"""What can be proven differs by chain, and what cannot is said, never passed over."""

from __future__ import annotations

import json
from typing import Any

import pytest
import rlp  # type: ignore[import-untyped]
from eth_hash.auto import keccak

from indexer.chain.verify import (
    ETHEREUM,
    Commitment,
    Profile,
    profile_of,
    prove_block,
    prove_events,
)
from indexer.chain.verify.profiles import OP_STACK, POLYGON, UNKNOWN
from indexer.errors import ProofFailed
from indexer.rows import BlockData, BlockEvents, ReceiptRow, TransactionRow
from tests.support import consensus, proving
from tests.support.fixtures import needs_fixtures

pytestmark = needs_fixtures

ARBITRUM_ONE = 42_161
BLOCK_PROOFS = {Commitment.HEADER, Commitment.TRANSACTIONS}
POLYGON_BLOCK = "polygon/19594674/block.json"
SHANGHAI_BLOCK = "ethereum/18000000/block.json"


def known(chain_id: int) -> Profile:
    profile = profile_of(chain_id)
    assert profile is not None
    return profile


def list_root(items: list[bytes]) -> bytes:
    return bytes.fromhex(consensus.list_root(items)[2:])


def synced(data: BlockData, **fields: Any) -> TransactionRow:
    """Return what a node appends to a block in which the state was synced."""
    block = data.block
    made = b"matic-bor-receipt-" + block.number.to_bytes(8, "big") + block.hash
    row = data.transactions[-1]._replace(
        transaction_index=len(data.transactions),
        hash=keccak(made),
        nonce=0,
        value=0,
        gas=0,
        gas_price=0,
        v=0,
        r=0,
        s=0,
        from_address=bytes(20),
        to_address=bytes(20),
        type=0,
        input=b"",
        access_list=None,
        chain_id=None,
    )
    return row._replace(**fields)


def synced_events(data: BlockData, events: BlockEvents) -> BlockEvents:
    """Return a block's events with the receipt and the log of its state sync."""
    index, own = len(data.transactions), synced(data).hash
    receipt = events.receipts[-1]._replace(
        transaction_index=index, transaction_hash=own, gas_used=0
    )
    log = events.logs[-1]._replace(
        log_index=len(events.logs), transaction_index=index, transaction_hash=own
    )
    return events._replace(
        receipts=[*events.receipts, receipt],
        logs=[*events.logs, log._replace(address=b"\x10" * 20)],
    )


def test_c3_polygons_state_sync_is_left_out_of_the_transactions_root() -> None:
    data = proving.block_rows(POLYGON_BLOCK)
    longer = data._replace(transactions=[*data.transactions, synced(data)])
    proof = prove_block(longer, POLYGON)
    assert proof.proven == BLOCK_PROOFS
    with pytest.raises(ProofFailed, match="hash of transaction 3"):
        prove_block(longer, ETHEREUM)


def test_c3_a_state_sync_that_says_something_is_not_called_proven() -> None:
    data = proving.block_rows(POLYGON_BLOCK)
    for fields in ({"value": 1}, {"input": b"\x01"}, {"to_address": b"\x01" * 20}):
        rows = [*data.transactions, synced(data, **fields)]
        proof = prove_block(data._replace(transactions=rows), POLYGON)
        assert proof.proven == {Commitment.HEADER}
        assert "in no root" in proof.unprovable[Commitment.TRANSACTIONS]


def test_c3_a_state_sync_of_another_block_is_refused() -> None:
    data = proving.block_rows(POLYGON_BLOCK)
    rows = [*data.transactions, synced(data, hash=keccak(b"another"))]
    with pytest.raises(ProofFailed, match="hash of transaction 3"):
        prove_block(data._replace(transactions=rows), POLYGON)


def test_c3_a_state_syncs_own_logs_are_not_called_proven_but_all_others_are() -> None:
    data = proving.block_rows(POLYGON_BLOCK)
    events = synced_events(data, proving.event_rows(data.block))
    proof = prove_events(data.block, events, POLYGON)
    assert proof.proven == {Commitment.BLOOM}
    assert "in no root" in proof.unprovable[Commitment.RECEIPTS]
    first = events.logs[0]._replace(data=b"\x01")
    with pytest.raises(ProofFailed, match="receipts root"):
        prove_events(
            data.block, events._replace(logs=[first, *events.logs[1:]]), POLYGON
        )
    with pytest.raises(ProofFailed, match="receipts root"):
        prove_events(data.block, events, ETHEREUM)


def test_c3_a_block_of_nothing_but_a_state_sync_is_proven_empty() -> None:
    data = proving.block_rows("polygon/135808/block.json")
    assert prove_block(data, POLYGON).proven == BLOCK_PROOFS
    events = proving.event_rows(data.block)
    assert events.logs
    proof = prove_events(data.block, events, POLYGON)
    assert proof.proven == {Commitment.BLOOM}
    assert proof.unprovable.keys() == {Commitment.RECEIPTS}


def test_c3_receipts_without_their_state_root_cannot_be_proven() -> None:
    block = proving.block_rows("ethereum/1000000/block.json").block
    events = proving.event_rows(block)
    modern = [row._replace(root=None, status=1) for row in events.receipts]
    proof = prove_events(block, events._replace(receipts=modern), known(1))
    assert proof.proven == {Commitment.BLOOM}
    assert "Byzantium" in proof.unprovable[Commitment.RECEIPTS]


def test_c3_classic_arbitrum_has_no_receipts_root_that_can_be_made() -> None:
    block = proving.block_rows("arbitrum/classic_19000174/block.json").block
    proof = prove_events(block, proving.event_rows(block), known(ARBITRUM_ONE))
    assert proof.proven == {Commitment.BLOOM}
    assert "another way" in proof.unprovable[Commitment.RECEIPTS]


def test_c3_a_withdrawals_root_of_storage_is_not_taken_for_one_of_a_list() -> None:
    data = proving.block_rows(SHANGHAI_BLOCK)._replace(withdrawals=[])
    proof = prove_block(data, OP_STACK)
    assert proof.proven == BLOCK_PROOFS
    assert "storage" in proof.unprovable[Commitment.WITHDRAWALS]
    with pytest.raises(ProofFailed, match="withdrawals root"):
        prove_block(data, ETHEREUM)


def test_c3_a_list_of_withdrawals_is_proven_on_any_chain() -> None:
    data = proving.block_rows(SHANGHAI_BLOCK)
    assert Commitment.WITHDRAWALS in prove_block(data, OP_STACK).proven
    wrong = [data.withdrawals[0]._replace(amount=1), *data.withdrawals[1:]]
    with pytest.raises(ProofFailed, match="withdrawals root"):
        prove_block(data._replace(withdrawals=wrong), OP_STACK)


def only(data: BlockData, row: TransactionRow, encoded: bytes) -> BlockData:
    """Return a block that holds one transaction, as another library commits to it."""
    row = row._replace(transaction_index=0, hash=keccak(encoded))
    block = data.block._replace(transactions_root=list_root([encoded]))
    return data._replace(
        block=block, transactions=[row._replace(block_number=block.number)]
    )


TRANSACTIONS = UNKNOWN._replace(proves=frozenset({Commitment.TRANSACTIONS}))


@pytest.mark.parametrize(
    ("extra", "mint", "system"),
    [
        ({"mint": "0xde0b6b3a7640000", "isSystemTx": False}, 10**18, b""),
        ({"mint": None}, 0, b""),
        ({"isSystemTx": True}, 0, b"\x01"),
    ],
)
@pytest.mark.parametrize("to", [None, b"\x42" * 20])
def test_c3_deposits_are_proven_with_and_without_mint_and_recipient(
    extra: dict[str, Any], mint: int, system: bytes, to: bytes | None
) -> None:
    data = proving.block_rows("optimism/bedrock_goerli_5003318/block.json")
    row = data.transactions[0]._replace(
        to_address=to,
        extra=json.dumps({"sourceHash": "0x" + "ab" * 32, **extra}),
    )
    fields = [b"\xab" * 32, row.from_address, to or b"", mint, row.value, row.gas]
    encoded = b"\x7e" + rlp.encode([*fields, system, row.input])
    proof = prove_block(only(data, row, encoded), TRANSACTIONS)
    assert proof.proven == {Commitment.TRANSACTIONS}


def test_c3_a_deposit_without_its_source_cannot_be_proven() -> None:
    data = proving.block_rows("optimism/bedrock_goerli_5003318/block.json")
    rows = [data.transactions[0]._replace(extra=None), *data.transactions[1:]]
    proof = prove_block(data._replace(transactions=rows), OP_STACK)
    assert proof.proven == {Commitment.HEADER}
    reason = proof.unprovable[Commitment.TRANSACTIONS]
    assert reason == "transaction 0: the node gives no sourceHash"


@pytest.mark.parametrize(
    ("extra", "added"),
    [
        (None, []),
        ({"depositNonce": "0x4c5836"}, []),
        ({"depositNonce": "0x4c5836", "depositReceiptVersion": "0x1"}, [0x4C5836, 1]),
    ],
)
def test_c3_receipts_of_deposits_have_their_nonce_since_canyon(
    extra: dict[str, str] | None, added: list[int]
) -> None:
    block = proving.block_rows("optimism/bedrock_goerli_5003318/block.json").block
    events = proving.event_rows(block)
    row: ReceiptRow = events.receipts[0]
    row = row._replace(extra=None if extra is None else json.dumps(extra))
    body = rlp.encode([1, row.cumulative_gas_used, row.logs_bloom, [], *added])
    block = block._replace(receipts_root=list_root([b"\x7e" + body]))
    one = events._replace(receipts=[row], logs=[])
    receipts = OP_STACK._replace(proves=frozenset({Commitment.RECEIPTS}))
    assert prove_events(block, one, receipts).proven == {Commitment.RECEIPTS}
