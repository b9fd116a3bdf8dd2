"""The stored tip and the way up: height by height along parent hashes."""

from __future__ import annotations

import logging
import time
from functools import partial

from indexer.chain.lead import Head, Lead
from indexer.chain.tip import marks
from indexer.db.connection import Database
from indexer.errors import ChainDataError
from indexer.log import fields
from indexer.metrics import Metrics
from indexer.ranges import BlockRange
from indexer.rows import BlockData
from indexer.services.chunks import ChunkSizer
from indexer.services.follow.final import Finality
from indexer.services.follow.reconcile import Reconciler, Verdict
from indexer.services.follow.replace import store_new
from indexer.services.follow.role import Role
from indexer.services.follow.watchdog import Watchdog
from indexer.services.proofs import Fetched, Prover
from indexer.store import blocks as stored
from indexer.store.blocks import StoredBlock
from indexer.store.partitions import HEIGHTS_PER_PARTITION, ensure_partitions

# How far ahead of the tip the next partition is made: a day or more on any chain that
# has a block a second.
_PARTITION_MARGIN = HEIGHTS_PER_PARTITION // 10
# How often the tip is compared while the node's head is as high.
_LOOK_SECONDS = 1.0

log = logging.getLogger(__name__)


class Walk:
    """A cursor that goes up with the chain, and back to the fork where it forks."""

    def __init__(
        self,
        database: Database,
        lead: Lead,
        role: Role,
        *,
        prover: Prover,
        depth: int | None,
        metrics: Metrics,
        watchdog: Watchdog,
    ) -> None:
        """``depth`` stands in where a node has no ``finalized`` tag."""
        self._database = database
        self._lead = lead
        self._role = role
        self._prover = prover
        self._metrics = metrics
        self._watchdog = watchdog
        self._chunks = ChunkSizer()
        self._tip: StoredBlock | None = None
        self._looked_at = float("-inf")
        self._partitions_to = -1
        self.finality = Finality(database, lead, role, depth=depth)
        self._reconciler = Reconciler(database, lead, role, prover, self.finality)
        self.next_height = -1
        self.blocks_written = 0

    async def begin(self, height: int) -> None:
        """Go on from a height, once the unfinalized tail is what the nodes give.

        Raises as :meth:`advance`.
        """
        self.next_height = height
        await self.finality.recall()
        async with self._database.connection() as conn:
            self._tip = await stored.highest_block(conn)
        await self._reconcile()

    async def advance(self, head: Head, last: int) -> bool:
        """Store the next blocks, up to ``last``, in one transaction.

        Return False where they did not fit what is stored; it is what it has to be
        then. Raises FinalityViolated, LeaseLost, RangeNotFresh, and whatever asking
        raises.
        """
        last = min(last, self.next_height + self._chunks.size - 1)
        heights = BlockRange(self.next_height, last)
        fetched = await self._lead.ask(
            head.endpoint,
            partial(self._prover.fetch_blocks, heights=heights.heights()),
        )
        data = fetched.data
        self._chunks.learn(len(data), sum(each.raw_bytes for each in data))
        await self._ensure_partitions(heights.last)
        try:
            written = await self._store(heights, fetched)
        except ChainDataError:
            # Another block, parent or child is stored: a reorganisation, or not.
            if await self._reconcile() is Verdict.AGREED:
                raise
            return False
        self._moved(StoredBlock(data[-1].block.number, data[-1].block.hash), written)
        log.info(
            "stored block %s" if len(heights) == 1 else "stored blocks %s",
            heights.last if len(heights) == 1 else heights,
            extra=fields(new=written, hash="0x" + data[-1].block.hash.hex()[:16]),
        )
        return True

    async def look(self, head: Head) -> None:
        """Compare the tip where the node's head is as high: there may be a fork.

        A lower head is never one: a node may lag or be syncing. Raises as
        :meth:`advance`.
        """
        tip = self._tip
        if tip is None or head.number != tip.number:
            if head.number < self.next_height - 1:
                self._watchdog.because(
                    f"the head of {head.endpoint.name} is at {head.number}, below "
                    f"block {self.next_height - 1}, which is stored"
                )
            return
        if time.monotonic() - self._looked_at < _LOOK_SECONDS:
            return
        [theirs] = await self._lead.ask(
            head.endpoint, partial(marks, heights=[tip.number])
        )
        self._looked_at = time.monotonic()
        if theirs.hash == tip.hash:
            self._reconciler.no_tie()
        else:
            await self._reconcile()

    async def _store(self, heights: BlockRange, fetched: Fetched[BlockData]) -> int:
        """Commit blocks and their jobs together: both are seen, or neither."""
        async with self._database.transaction() as conn:
            await self._role.fence(conn)
            known = frozenset(
                each
                for run in await stored.stored_ranges(conn, heights)
                for each in run.heights()
            )
            fresh = not known and await stored.range_is_empty(conn, heights)
            return await store_new(conn, fetched, fresh=fresh, known=known)

    async def _reconcile(self) -> Verdict:
        """Compare the stored tail with the nodes', and go on behind what is right."""
        settled = await self._reconciler.settle()
        if settled.replaced is not None:
            reorg, tip = settled.replaced
            self._metrics.reorgs.inc()
            self._metrics.blocks_replaced.inc(reorg.depth)
            if self.next_height > reorg.fork:
                self._moved(tip, tip.number - reorg.fork)
        elif settled.reason:
            log.info("%s: it is kept", settled.reason)
            self._watchdog.because(settled.reason)
        return settled.verdict

    def _moved(self, tip: StoredBlock, written: int) -> None:
        self._tip = tip
        self.next_height = tip.number + 1
        self.blocks_written += written
        self._metrics.blocks_stored.inc(written)
        self._metrics.tip_height.set(tip.number)
        if self._watchdog.reached(tip.number):
            self._metrics.tip_grew.set_to_current_time()

    async def _ensure_partitions(self, height: int) -> None:
        if height + _PARTITION_MARGIN // 2 > self._partitions_to:
            wanted = height + _PARTITION_MARGIN
            async with self._database.connection() as conn:
                await ensure_partitions(conn, BlockRange(height, wanted))
            self._partitions_to = wanted
