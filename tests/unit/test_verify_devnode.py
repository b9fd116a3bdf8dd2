"""The node that makes chains and the code that proves them agree.

Neither is judged by the other: both are by other libraries, each in tests of its own.
"""

from __future__ import annotations

import pytest

from indexer.chain.decode import decode_block, decode_block_receipts
from indexer.chain.verify import EVERYTHING, probe, prove_block, prove_events
from indexer.devnode.chain import Chain
from indexer.devnode.config import DevnodeConfig
from indexer.rows import BlockData, BlockEvents
from tests.support.proving import METHOD, reference


def _blocks(profile: str, heights: range) -> list[tuple[BlockData, BlockEvents]]:
    chain = Chain(DevnodeConfig(profile=profile, height=heights[-1]))
    found = []
    for height in heights:
        raw = chain.block_json(height, full=True)
        data = decode_block(raw, number=height, method=METHOD)
        assert data is not None
        raw = chain.receipts_json(height)
        ref = reference(data.block)
        events = decode_block_receipts(raw, ref=ref, method=METHOD)
        assert events is not None
        found.append((data, events))
    chain.close()
    return found


@pytest.mark.parametrize(
    ("profile", "heights"),
    [("sparse", range(200)), ("mixed", range(60)), ("dense", range(4))],
)
def test_c3_every_block_of_a_test_chain_is_proven_whole(
    profile: str, heights: range
) -> None:
    blocks = _blocks(profile, heights)
    found = probe(blocks[:20])
    assert found.proves == EVERYTHING
    for data, events in blocks:
        proven = prove_block(data, found).proven
        assert proven | prove_events(data.block, events, found).proven == EVERYTHING
