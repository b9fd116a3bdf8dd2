"""Stored blocks against the nodes': is it a reorganisation, and what then (C5, C6).

A reorganisation is concluded only from a different block at a stored height, given by
an endpoint that has at least as much of the chain as is stored. A lower head, a null,
an error or a lagging node never is one. Between two forks the longer one wins; of two
equally long ones the stored one is kept for as long as any node gives it.
"""

from __future__ import annotations

import logging
import time
from enum import Enum
from functools import partial
from typing import NamedTuple

from indexer.chain.endpoint import Endpoint
from indexer.chain.lead import Head, Lead
from indexer.chain.limits import Clock
from indexer.chain.tip import marks
from indexer.db.connection import Database
from indexer.errors import FinalityViolated, IndexerError
from indexer.services.follow.final import Finality
from indexer.services.follow.replace import Replaced, replace_above
from indexer.services.follow.role import Role
from indexer.services.proofs import Prover
from indexer.store import blocks as stored
from indexer.store import reorg
from indexer.store.blocks import StoredBlock

# Few reorganisations are deeper than the first; the batches double after it.
_FIRST_BATCH = 16
_LARGEST_BATCH = 512

# A tie has to be seen twice, this far apart: a load balancer may show one for a moment.
_TIE_SECONDS = 1.0
# A node that contradicts what is final, while another does not, is left alone.
_AVOID_SECONDS = 30.0

log = logging.getLogger(__name__)


class Verdict(Enum):
    """What came of a look."""

    AGREED = "agreed"
    KEPT = "kept"
    REPLACED = "replaced"


class Settled(NamedTuple):
    """The verdict, with what was replaced, or why the stored blocks were kept."""

    verdict: Verdict
    replaced: Replaced | None = None
    reason: str = ""


class _Contradiction(NamedTuple):
    """The lowest stored block that an endpoint gives another hash for."""

    number: int
    stored: bytes
    offered: bytes


class Reconciler:
    """Compares the stored tail with what the endpoints give, and replaces it."""

    def __init__(
        self,
        database: Database,
        lead: Lead,
        role: Role,
        prover: Prover,
        finality: Finality,
        clock: Clock = time.monotonic,
    ) -> None:
        self._database = database
        self._lead = lead
        self._role = role
        self._prover = prover
        self._finality = finality
        self._clock = clock
        self._tie: tuple[bytes, bytes] | None = None
        self._tied_at = 0.0

    async def settle(self) -> Settled:
        """Look at every endpoint that answers; replace what has to be.

        Raises FinalityViolated where what was final is another block, and whatever
        asking raises; nothing is deleted then.
        """
        async with self._database.connection() as conn:
            highest = await stored.highest_block(conn)
        if highest is None:
            return Settled(Verdict.AGREED)
        heads = await self._lead.look_around()
        best = [each for each in heads if each.number == heads[0].number]
        contradictions = []
        for head in best:
            found = await self._contradiction(head)
            if found is None:
                self._tie = None
                self._lead.follow(head.endpoint)
                return Settled(Verdict.AGREED)
            contradictions.append(found)
        head, contradiction = best[0], contradictions[0]
        if head.number < highest.number:
            return Settled(
                Verdict.KEPT,
                reason=f"{head.endpoint.name} gives another block "
                f"{contradiction.number}, but its head is at {head.number} and block "
                f"{highest.number} is stored",
            )
        if self._is_final(contradiction):
            return await self._contradicted_below_final(
                contradiction, rogues=best, others=heads[len(best) :]
            )
        if head.number == highest.number and not self._is_tie_confirmed(
            highest, contradiction
        ):
            return Settled(
                Verdict.KEPT,
                reason=f"{head.endpoint.name} gives another block {highest.number}, "
                "and its chain is as long as the stored one",
            )
        return await self._replace(head, contradiction.number - 1, highest)

    async def _replace(self, head: Head, fork: int, highest: StoredBlock) -> Settled:
        if self._finality.height is None:
            await self._finality.recall()
        if self._finality.height is None:
            raise IndexerError(
                f"block {fork + 1} was replaced, but the node has no finalized block "
                "to say how far that may go; say with --finality-depth N how many "
                "blocks below the head are final"
            )
        self._lead.follow(head.endpoint)
        replaced = await replace_above(
            self._database,
            self._lead,
            self._role,
            self._prover,
            head=head,
            fork=fork,
            highest=highest,
        )
        self._tie = None
        log.warning(
            "reorganisation: blocks %d..%d are replaced by %d..%d",
            fork + 1,
            highest.number,
            fork + 1,
            replaced.tip.number,
        )
        return Settled(Verdict.REPLACED, replaced)

    async def _contradiction(self, head: Head) -> _Contradiction | None:
        """Walk down from the endpoint's head until a stored block is its own.

        Whatever is below that is its own as well, for hashes commit to parents. Ends
        below the finalized height, where it does not matter how deep it goes.
        """
        lowest = None
        top, size = head.number, _FIRST_BATCH
        while True:
            async with self._database.connection() as conn:
                tail = await reorg.stored_tail(conn, top=top, limit=size)
            if not tail:
                return lowest
            theirs = await self._hashes(head.endpoint, tail)
            for block, offered in zip(tail, theirs, strict=True):
                if block.hash == offered:
                    continue
                lowest = _Contradiction(block.number, block.hash, offered)
                if self._is_final(lowest):
                    return lowest
            if tail[-1].hash == theirs[-1]:
                return lowest
            top, size = tail[-1].number - 1, min(2 * size, _LARGEST_BATCH)

    async def _hashes(self, endpoint: Endpoint, tail: list[StoredBlock]) -> list[bytes]:
        heights = [each.number for each in tail]
        found = await self._lead.ask(endpoint, partial(marks, heights=heights))
        return [each.hash for each in found]

    def _is_final(self, contradiction: _Contradiction) -> bool:
        final = self._finality.height
        return final is not None and contradiction.number <= final

    async def _contradicted_below_final(
        self, found: _Contradiction, *, rogues: list[Head], others: list[Head]
    ) -> Settled:
        """Go on with an endpoint that has what is final, if there is one."""
        for head in others:
            if await self._contradiction(head) is None:
                for rogue in rogues:
                    self._lead.avoid(rogue.endpoint, _AVOID_SECONDS)
                    log.warning(
                        "%s gives another block %d, which is final; it is left alone",
                        rogue.endpoint.name,
                        found.number,
                    )
                self._lead.follow(head.endpoint)
                return Settled(Verdict.AGREED)
        raise FinalityViolated(*found, final=self._finality.height or 0)

    def _is_tie_confirmed(
        self, highest: StoredBlock, contradiction: _Contradiction
    ) -> bool:
        """Tell whether the same tie was seen some time ago already."""
        tie = (highest.hash, contradiction.offered)
        now = self._clock()
        if tie != self._tie:
            self._tie, self._tied_at = tie, now
            return False
        return now - self._tied_at >= _TIE_SECONDS

    def no_tie(self) -> None:
        """Take note that the stored tip was given by a node again."""
        self._tie = None
