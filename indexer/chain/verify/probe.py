"""Find out from some blocks what can be proven of a chain nobody has listed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from indexer.chain.verify.blocks import prove_block
from indexer.chain.verify.events import prove_events
from indexer.chain.verify.profiles import (
    EVERYTHING,
    UNKNOWN,
    Commitment,
    Profile,
    probed_profile,
)
from indexer.errors import ChainDataError
from indexer.rows import BlockData, BlockEvents

_OF_BLOCKS: Final = (
    Commitment.HEADER,
    Commitment.TRANSACTIONS,
    Commitment.WITHDRAWALS,
)
_OF_EVENTS: Final = (Commitment.RECEIPTS, Commitment.BLOOM)


def probe(samples: Iterable[tuple[BlockData, BlockEvents | None]]) -> Profile:
    """Return the profile of the chain the samples are from.

    What fails in any sample cannot be proven. What holds in one that has something
    to prove can be, and so can what no sample had, if the headers are Ethereum's.
    Blocks with transactions of several types and with logs tell most.
    """
    held: set[Commitment] = set()
    refuted: set[Commitment] = set()
    for data, events in samples:
        for commitment in Commitment:
            try:
                shown = _shown(commitment, data, events)
            except ChainDataError:
                refuted.add(commitment)
            else:
                held |= shown
    proves = EVERYTHING if Commitment.HEADER in held else held
    return probed_profile(frozenset(proves - refuted))


def _shown(
    commitment: Commitment, data: BlockData, events: BlockEvents | None
) -> frozenset[Commitment]:
    """Return the commitment if the block proves it by more than an empty list."""
    profile = UNKNOWN._replace(proves=frozenset((commitment,)))
    if commitment in _OF_BLOCKS:
        proven = prove_block(data, profile).proven
    elif events is not None:
        proven = prove_events(data.block, events, profile).proven
    else:
        proven = frozenset()
    return proven if _has(commitment, data, events) else frozenset()


def _has(commitment: Commitment, data: BlockData, events: BlockEvents | None) -> bool:
    """Tell whether a block has anything that the commitment is to."""
    there = {
        Commitment.HEADER: True,
        Commitment.TRANSACTIONS: bool(data.transactions),
        Commitment.WITHDRAWALS: bool(data.withdrawals),
        Commitment.RECEIPTS: events is not None and bool(events.receipts),
        Commitment.BLOOM: events is not None and bool(events.logs),
    }
    return there[commitment]
