"""Prove what an endpoint gives before anything of it is stored (C3).

A proof that fails is a fault of that endpoint's answer, so it is raised where another
endpoint is then asked for the whole of it anew (C7).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Generic, Literal, NamedTuple, TypeVar

from indexer.chain import fetch
from indexer.chain.endpoint import Endpoint
from indexer.chain.verify import (
    Commitment,
    Profile,
    Proof,
    prove_block,
    prove_events,
)
from indexer.chain.verify.bloom import EMPTY_BLOOM
from indexer.chain.verify.trie import EMPTY_ROOT
from indexer.errors import ChainDataError, ProofImpossible, WithheldData
from indexer.ranges import runs
from indexer.rows import BlockData, BlockEvents, BlockRef
from indexer.store.coverage import NOTHING_CERTAIN, Certainty

Level = Literal["auto", "strict", "warn", "off"]

_EVENTS = frozenset((Commitment.RECEIPTS, Commitment.BLOOM))

# What every block's have alike, and how it is said that some of it is missing.
_WITH_FIELDS = frozenset((Commitment.HEADER,))
LEFT_OUT = "the node gives no "

T = TypeVar("T")

log = logging.getLogger(__name__)


class Fetched(NamedTuple, Generic[T]):
    """What an endpoint gave, block by block, and how far it is proven."""

    data: list[T]
    certainty: Certainty


class Prover:
    """Fetches and proves, by the level that is wanted and what the chain allows.

    ``auto``: everything the chain allows must prove; what cannot be proven is marked,
    and said once. ``strict``: what cannot be proven fails as well. ``warn``: what is
    wrong is logged and stored, but not called proven. ``off``: nothing is looked at.
    """

    def __init__(self, profile: Profile, level: Level) -> None:
        self.profile = profile
        self.level = level
        self._said: set[tuple[Commitment, str]] = set()
        self._seen_proven: frozenset[Commitment] = frozenset()

    async def fetch_blocks(
        self, endpoint: Endpoint, heights: Sequence[int]
    ) -> Fetched[BlockData]:
        """Return proven blocks of some heights.

        Raises what :func:`indexer.chain.fetch.fetch_blocks` does, ProofFailed,
        InconsistentResponse and ProofImpossible.
        """
        data = await fetch.fetch_blocks(endpoint, heights)
        with _blaming(endpoint):
            return Fetched(data, self.blocks(data))

    async def fetch_events(
        self, endpoint: Endpoint, refs: Sequence[BlockRef]
    ) -> Fetched[BlockEvents]:
        """Return the proven receipts and logs of some blocks; raises likewise."""
        data = await fetch.fetch_events(endpoint, refs)
        with _blaming(endpoint):
            return Fetched(data, self.events(refs, data))

    def blocks(self, data: Sequence[BlockData]) -> Certainty:
        """Prove blocks; raises as :meth:`fetch_blocks`, but for what fetching does."""
        if self.level == "off":
            return NOTHING_CERTAIN
        tally = _Tally()
        for each in data:
            number = each.block.number
            tally.enter(
                number, self._prove(number, partial(prove_block, each, self.profile))
            )
        return tally.certainty()

    def events(
        self, refs: Sequence[BlockRef], data: Sequence[BlockEvents]
    ) -> Certainty:
        """Prove receipts and logs against their blocks' headers; raises likewise."""
        if self.level == "off":
            return NOTHING_CERTAIN
        tally = _Tally()
        for ref, events in zip(refs, data, strict=True):
            if _is_empty(ref, events) and self.profile.proves >= _EVENTS:
                tally.proven.append(ref.number)
                continue
            proof = self._prove(
                ref.number, partial(prove_events, ref, events, self.profile)
            )
            tally.enter(ref.number, proof)
        return tally.certainty()

    def _prove(self, number: int, prove: Callable[[], Proof]) -> Proof | None:
        """Return the proof, None for one that fails where that is only a warning."""
        try:
            proof = prove()
        except ChainDataError as error:
            if self.level != "warn":
                raise
            log.warning("stored all the same (--verify warn): %s", error)
            return None
        for commitment, reason in proof.unprovable.items():
            if self.level == "strict":
                raise ProofImpossible(number, commitment, reason)
            if commitment in self._seen_proven and reason.startswith(LEFT_OUT):
                # Of other blocks it is given, so that it is missing is no quirk.
                raise WithheldData(f"block {number}: {reason}", block_number=number)
            self._say(number, commitment, reason)
        self._seen_proven |= proof.proven & _WITH_FIELDS
        return proof

    def _say(self, number: int, commitment: Commitment, reason: str) -> None:
        """Say once for each kind of reason what cannot be proven."""
        # Which transaction of the block it is makes no other kind.
        kind = (commitment, reason.rpartition(": ")[2])
        if kind not in self._said:
            self._said.add(kind)
            log.warning(
                "NOT PROVEN: the %s of block %d: %s; it is stored and marked as not "
                "provable, and so are others of its kind, without another word",
                commitment,
                number,
                reason,
            )


class _Tally:
    """Heights by what came of their proofs."""

    def __init__(self) -> None:
        self.proven: list[int] = []
        self._unprovable: list[int] = []

    def enter(self, number: int, proof: Proof | None) -> None:
        if proof is not None:
            heights = self._unprovable if proof.unprovable else self.proven
            heights.append(number)

    def certainty(self) -> Certainty:
        return Certainty(runs(self.proven), runs(self._unprovable))


def _is_empty(ref: BlockRef, events: BlockEvents) -> bool:
    """Tell whether there is nothing, and the header says that it is nothing."""
    return (
        not ref.transaction_hashes
        and not events.receipts
        and not events.logs
        and ref.receipts_root == EMPTY_ROOT
        and ref.logs_bloom == EMPTY_BLOOM
    )


@contextmanager
def _blaming(endpoint: Endpoint) -> Iterator[None]:
    """Say whose answer did not prove: the error may end with another endpoint."""
    try:
        yield
    except ChainDataError as error:
        log.warning("%s: %s", endpoint.name, error)
        raise
