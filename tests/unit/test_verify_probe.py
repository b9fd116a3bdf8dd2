"""What nobody has listed is found out from blocks, and never called proven unseen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from indexer.chain.decode import decode_block
from indexer.chain.verify import (
    ETHEREUM,
    EVERYTHING,
    Commitment,
    probe,
    profile_of,
    prove_block,
    prove_events,
)
from indexer.chain.verify.profiles import UNKNOWN
from indexer.errors import InconsistentResponse, ProofFailed
from indexer.rows import BlockData, BlockEvents, LogRow
from tests.support import proving
from tests.support.fixtures import needs_fixtures
from tests.support.rlpchain import rlp_chain

pytestmark = needs_fixtures

POLYGON_BLOCK = "polygon/19594674/block.json"
SHANGHAI_BLOCK = "ethereum/18000000/block.json"
TRANSACTIONS = UNKNOWN._replace(proves=frozenset({Commitment.TRANSACTIONS}))


def test_c3_an_unknown_type_is_not_proven_but_the_others_hashes_are_checked() -> None:
    data = proving.block_rows("stable-testnet/59083166/block.json")
    proof = prove_block(data, TRANSACTIONS)
    assert proof.proven == frozenset()
    reason = proof.unprovable[Commitment.TRANSACTIONS]
    assert "the encoding of type 0x3f is not known" in reason
    at = next(i for i, row in enumerate(data.transactions) if row.type == 2)
    rows = list(data.transactions)
    rows[at] = rows[at]._replace(value=7)
    with pytest.raises(ProofFailed, match=f"hash of transaction {at}"):
        prove_block(data._replace(transactions=rows), TRANSACTIONS)


def test_c3_a_receipt_of_an_unknown_type_proves_or_says_nothing() -> None:
    block = proving.block_rows("stable-testnet/59083166/block.json").block
    events = proving.event_rows(block)
    rows = [row._replace(cumulative_gas_used=1) for row in events.receipts]
    proof = prove_events(block, events._replace(receipts=rows), ETHEREUM)
    assert proof.proven == {Commitment.BLOOM}
    assert "0x3f" in proof.unprovable[Commitment.RECEIPTS]


@pytest.mark.parametrize(
    "file",
    [
        "arbitrum/orbit_system_tx_79824059.json",
        "celo/tx_7b_32460725.json",
        "execution-apis/eth_getTransactionByHash.get-access-list.json",
        "execution-apis/eth_getTransactionByHash.get-blob-tx.json",
        "execution-apis/eth_getTransactionByHash.get-legacy-create.json",
    ],
)
def test_c3_recorded_transactions_without_their_block_have_their_hash(
    file: str,
) -> None:
    [item] = [i for i in proving.everything() if i.file == file]
    block = {
        "number": item.value["blockNumber"],
        "hash": item.value["blockHash"],
        "parentHash": "0x" + "00" * 32,
        "transactions": [{**item.value, "transactionIndex": "0x0"}],
    }
    raw = json.dumps(block).encode()
    data = decode_block(raw, number=None, method=proving.METHOD)
    assert data is not None
    reason = prove_block(data, TRANSACTIONS).unprovable[Commitment.TRANSACTIONS]
    assert reason == "the node gives no transactions root"
    rows = [data.transactions[0]._replace(input=b"\x01")]
    with pytest.raises(ProofFailed, match="hash of transaction 0"):
        prove_block(data._replace(transactions=rows), TRANSACTIONS)


def samples(*files: str) -> list[tuple[BlockData, BlockEvents | None]]:
    blocks = [proving.block_rows(file) for file in files]
    return [(data, proving.event_rows(data.block)) for data in blocks]


def test_a_chain_that_is_not_listed_has_no_profile() -> None:
    assert profile_of(1337) is None
    ethereum = profile_of(1)
    assert ethereum is not None
    assert ethereum.proves == EVERYTHING


def test_c3_blocks_like_ethereums_show_that_everything_can_be_proven() -> None:
    chain = rlp_chain()
    whole = probe((data, None) for data in chain)
    assert whole.proves == EVERYTHING
    assert whole.name == "probed:header+transactions+withdrawals+receipts+bloom"
    for data in chain:
        assert prove_block(data, whole).unprovable == {}


def test_c3_headers_alone_are_taken_to_stand_for_the_rest() -> None:
    empty = proving.block_rows("ropsten/10992/block.json")
    assert probe([(empty, None)]).proves == EVERYTHING


def test_c3_one_block_that_fails_is_enough_to_give_a_proof_up() -> None:
    cronos = samples("cronos/6542/block.json", "cronos/11446765/block.json")
    assert probe(cronos).proves == frozenset()
    assert probe(cronos).name == "probed:"
    assert probe(cronos[:1]).proves == {Commitment.BLOOM}


def test_c3_a_chain_with_headers_of_its_own_keeps_the_proofs_that_hold() -> None:
    fantom = samples("fantom/2/block.json")
    profile = probe(fantom)
    assert profile.proves == {Commitment.TRANSACTIONS, Commitment.RECEIPTS}
    proof = prove_block(fantom[0][0], profile)
    assert proof.proven == {Commitment.TRANSACTIONS}
    assert "header" in proof.unprovable[Commitment.HEADER]


def test_c3_no_blocks_show_nothing() -> None:
    assert probe([]).proves == frozenset()
    empty = proving.block_rows("ropsten/10992/block.json")
    other = empty._replace(block=empty.block._replace(mix_hash=bytes(32)))
    assert probe([(other, None)]).proves == frozenset()


def test_events_of_another_block_are_refused_whatever_can_be_proven() -> None:
    block = proving.block_rows(POLYGON_BLOCK).block
    other = proving.event_rows(proving.block_rows(SHANGHAI_BLOCK).block)
    nothing = ETHEREUM._replace(proves=frozenset())
    for profile in (ETHEREUM, nothing):
        with pytest.raises(InconsistentResponse, match="its receipts are those of"):
            prove_events(block, other, profile)


def _without_owner(log: LogRow) -> LogRow:
    return log._replace(transaction_index=None)


def _of_nobody(log: LogRow) -> LogRow:
    return log._replace(transaction_index=500)


@pytest.mark.parametrize("change", [_without_owner, _of_nobody])
def test_a_log_that_has_no_receipt_is_refused(change: Any) -> None:
    block = proving.block_rows(SHANGHAI_BLOCK).block
    events = proving.event_rows(block)
    logs = [*events.logs[:-1], change(events.logs[-1])]
    with pytest.raises(InconsistentResponse, match="without a receipt"):
        prove_events(block, events._replace(logs=logs), ETHEREUM)
