"""A real node that nobody here wrote makes blocks that prove, to the last receipt."""

from __future__ import annotations

import json

import pytest

from indexer.chain.decode import decode_block, decode_block_receipts
from indexer.chain.verify import (
    ETHEREUM,
    EVERYTHING,
    Commitment,
    probe,
    prove_block,
    prove_events,
)
from indexer.errors import ProofFailed
from indexer.rows import BlockData, BlockEvents
from tests.support import consensus
from tests.support.anvil import Anvil
from tests.support.contract import Chain
from tests.support.proving import METHOD, reference


def _blocks(node: Anvil, head: int) -> list[tuple[BlockData, BlockEvents]]:
    numbers = [hex(number) for number in range(head + 1)]
    blocks = node.batch("eth_getBlockByNumber", [[each, True] for each in numbers])
    receipts = node.batch("eth_getBlockReceipts", [[each] for each in numbers])
    found = []
    for block, listed in zip(blocks, receipts, strict=True):
        raw = json.dumps(block).encode()
        data = decode_block(raw, number=None, method=METHOD)
        assert data is not None
        raw = json.dumps(listed).encode()
        ref = reference(data.block)
        events = decode_block_receipts(raw, ref=ref, method=METHOD)
        assert events is not None
        found.append((data, events))
    return found


def test_c3_every_block_of_a_real_node_is_proven_whole(
    anvil_chain: tuple[Anvil, Chain],
) -> None:
    node, chain = anvil_chain
    blocks = _blocks(node, chain.head)
    types = {row.type for data, _ in blocks for row in data.transactions}
    assert types == {0, 1, 2, 3, 4}
    profile = probe(blocks)
    assert profile.proves == EVERYTHING
    for data, events in blocks:
        proof = prove_block(data, profile)
        rest = EVERYTHING - proof.unprovable.keys()
        assert proof.proven | prove_events(data.block, events, profile).proven == rest
        # This node's roots are over the form with blobs, which no block has.
        blobs = any(row.type == 3 for row in data.transactions)
        expected = {Commitment.TRANSACTIONS} if blobs else set()
        assert proof.unprovable.keys() == expected


def test_c3_roots_over_transactions_with_their_blobs_are_not_taken_for_the_chains(
    anvil_chain: tuple[Anvil, Chain],
) -> None:
    node, chain = anvil_chain
    [block, *_] = [
        data
        for data, _ in _blocks(node, chain.head)
        if any(row.type == 3 for row in data.transactions)
    ]
    hashes = [f"0x{row.hash.hex()}" for row in block.transactions]
    pooled = node.batch("eth_getRawTransactionByHash", [[each] for each in hashes])
    root = consensus.list_root([bytes.fromhex(each[2:]) for each in pooled])
    assert block.block.transactions_root == bytes.fromhex(root[2:])
    with pytest.raises(ProofFailed, match="transactions root"):
        prove_block(block, ETHEREUM)
