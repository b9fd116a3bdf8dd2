"""Keep the tip: each new block and its ``index_events`` job in one transaction."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Literal
from uuid import UUID

from indexer.backoff import delay_seconds
from indexer.chain.endpoints import Endpoints
from indexer.chain.fetch import fetch_blocks
from indexer.chain.tip import HeadWatcher, head_number
from indexer.db.connection import Connection, Database
from indexer.errors import (
    ChainDataError,
    IndexerError,
    LeaseLost,
    NotYetAvailable,
    ReorgDetected,
    RpcError,
    StoredBlockConflict,
    TransientError,
)
from indexer.jobs import backlog, roles
from indexer.jobs.workers import Identity
from indexer.log import fields
from indexer.ranges import BlockRange
from indexer.rows import BlockData
from indexer.services.chunks import ChunkSizer
from indexer.services.finality import require_finalized
from indexer.services.identity import check_identity
from indexer.services.kinds import INDEX_EVENTS, TIP_PRIORITY, tip_payload
from indexer.services.plan import plan
from indexer.store import blocks as stored
from indexer.store import chain
from indexer.store.copy import RangeNotFresh
from indexer.store.partitions import HEIGHTS_PER_PARTITION, ensure_partitions

ROLE = "follower"

# How far ahead of the tip the next partition is made: a day or more on any chain that
# has a block a second.
_PARTITION_MARGIN = HEIGHTS_PER_PARTITION // 10

log = logging.getLogger(__name__)

Start = int | Literal["finalized", "latest"] | None


class Follower:
    """Walks height by height from its own cursor, along parent hashes."""

    def __init__(
        self,
        database: Database,
        endpoints: Endpoints,
        watcher: HeadWatcher,
        *,
        name: str,
        lease: timedelta,
        finality_depth: int | None = None,
        start: Start = None,
        until: int | None = None,
    ) -> None:
        self._database = database
        self._endpoints = endpoints
        self._watcher = watcher
        self._name = name
        self._lease = lease
        self._finality_depth = finality_depth
        self._start = start
        self._until = until
        self._chunks = ChunkSizer()
        self._token: UUID | None = None
        self._partitions_to = -1
        self._stopping = asyncio.Event()
        self.next_height = -1
        self.blocks_written = 0

    def request_stop(self) -> None:
        """End after the transaction under way."""
        self._stopping.set()

    async def run(self) -> int:
        """Follow until told to stop or ``until`` is stored; return blocks written.

        Outages of the node and the database are waited out. Raises ReorgDetected or
        StoredBlockConflict where the node's chain is not the stored one.
        """
        failures = 0
        try:
            while not self._stopping.is_set() and not self._is_done():
                try:
                    await self._step()
                    failures = 0
                except (ReorgDetected, StoredBlockConflict):
                    raise
                except LeaseLost:
                    log.warning("another follower took over; standing by")
                    self._token = None
                except (NotYetAvailable, RangeNotFresh):
                    # Announced before it can be fetched, asked of a node behind, or
                    # stored by a worker in the same moment: look again.
                    await self._pause(0.05)
                except (TransientError, RpcError, ChainDataError) as error:
                    delay = delay_seconds(failures, base=0.5, cap=30.0)
                    failures += 1
                    log.warning("%s; trying again in %.1f s", error, delay)
                    await self._pause(delay)
        finally:
            await self._release()
        return self.blocks_written

    def _is_done(self) -> bool:
        return self._until is not None and self.next_height > self._until

    async def _step(self) -> None:
        if self._token is None and not await self._take_role():
            await self._pause(self._lease.total_seconds() / 3)
            return
        head = await head_number(self._endpoints)
        if self._until is not None:
            head = min(head, self._until)
        if head < self.next_height:
            # A lower head is never a reorganisation: a node may lag or be syncing.
            await self._wait_for_head()
            return
        while self.next_height <= head and not self._stopping.is_set():
            last = min(head, self.next_height + self._chunks.size - 1)
            await self._advance(BlockRange(self.next_height, last))

    async def _wait_for_head(self) -> None:
        hint = asyncio.ensure_future(
            self._watcher.wait(self._lease.total_seconds() / 3)
        )
        stop = asyncio.ensure_future(self._stopping.wait())
        done, pending = await asyncio.wait(
            {hint, stop}, return_when=asyncio.FIRST_COMPLETED
        )
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        if hint in done:
            hint.result()
        async with self._database.connection() as conn:
            await self._fence(conn)

    async def _advance(self, heights: BlockRange) -> None:
        data = await self._endpoints.run(
            lambda endpoint: fetch_blocks(endpoint, heights.heights())
        )
        self._chunks.learn(len(data), sum(each.raw_bytes for each in data))
        await self._ensure_partitions(heights.last)
        written = await self._store(data)
        self.next_height = heights.last + 1
        self.blocks_written += written
        log.info(
            "stored block %s" if len(heights) == 1 else "stored blocks %s",
            heights.last if len(heights) == 1 else heights,
            extra=fields(new=written, hash="0x" + data[-1].block.hash.hex()[:16]),
        )

    async def _store(self, data: list[BlockData]) -> int:
        """Commit blocks and their jobs together: both are seen, or neither."""
        heights = BlockRange(data[0].block.number, data[-1].block.number)
        async with self._database.transaction() as conn:
            await self._fence(conn)
            known = {
                each
                for run in await stored.stored_ranges(conn, heights)
                for each in run.heights()
            }
            fresh = not known and await stored.range_is_empty(conn, heights)
            await stored.write_blocks(conn, data=data, fresh=fresh)
            new = [each.block for each in data if each.block.number not in known]
            if new:
                await backlog.enqueue(
                    conn,
                    kind=INDEX_EVENTS,
                    payloads=[tip_payload(each.number, each.hash) for each in new],
                    priority=TIP_PRIORITY,
                )
        return len(new)

    async def _fence(self, conn: Connection) -> None:
        if self._token is not None:
            await roles.fence_role(
                conn, name=ROLE, token=self._token, lease=self._lease
            )

    async def _take_role(self) -> bool:
        async with self._database.connection() as conn:
            self._token = await roles.claim_role(
                conn, name=ROLE, holder=self._name, lease=self._lease
            )
            if self._token is None:
                holder = await roles.role_holder(conn, name=ROLE)
                log.info("%s follows already; standing by", holder)
                return False
        # A former holder may have gone further, so the cursor is read anew.
        self.next_height = await self._first_height()
        log.info("following from block %d", self.next_height)
        await self._plan_hole()
        return True

    async def _first_height(self) -> int:
        async with self._database.connection() as conn:
            highest = await stored.highest_block(conn)
            planned = await chain.planned(conn)
        if self.next_height >= 0 and highest is not None:
            return max(self.next_height, highest.number + 1)
        if isinstance(self._start, int):
            return self._start
        if self._start == "latest":
            return await head_number(self._endpoints)
        if self._start is None and (highest is not None or planned):
            # Planned heights belong to the backfill even while they are not stored.
            known = [each.last for each in planned]
            return max(*known, highest.number if highest else -1, -1) + 1
        return await require_finalized(self._endpoints, self._finality_depth) + 1

    async def _plan_hole(self) -> None:
        """Queue what lies between the highest planned height and the start."""
        async with self._database.connection() as conn:
            planned = await chain.planned(conn)
        first = max((each.last for each in planned), default=-1) + 1
        if first >= self.next_height:
            return
        if not planned:
            log.info(
                "nothing below block %d is planned; `indexer plan --from 0 --to %d` "
                "queues it",
                self.next_height,
                self.next_height,
            )
            return
        hole = BlockRange(first, self.next_height - 1)
        made = await plan(self._database, blocks=hole)
        jobs = len(made.block_jobs) + len(made.event_jobs)
        if jobs:
            log.info("queued %d jobs for blocks %s below the tip", jobs, hole)

    async def _ensure_partitions(self, height: int) -> None:
        if height + _PARTITION_MARGIN // 2 > self._partitions_to:
            wanted = height + _PARTITION_MARGIN
            async with self._database.connection() as conn:
                await ensure_partitions(conn, BlockRange(height, wanted))
            self._partitions_to = wanted

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def _release(self) -> None:
        if self._token is None:
            return
        try:
            async with self._database.connection() as conn:
                await roles.release_role(conn, name=ROLE, token=self._token)
        except IndexerError as error:
            log.warning("could not give the follower's role back: %s", error)
        self._token = None


async def make_follower(
    database: Database,
    endpoints: Endpoints,
    *,
    lease: timedelta,
    finality_depth: int | None = None,
    start: Start = None,
    until: int | None = None,
) -> Follower:
    """Check the nodes and return a follower that is ready to run.

    Raises WrongChain where a node serves another chain than the schema holds.
    """
    await check_identity(database, endpoints)
    return Follower(
        database,
        endpoints,
        HeadWatcher(endpoints),
        name=Identity.of_this_process(role="follow").name,
        lease=lease,
        finality_depth=finality_depth,
        start=start,
        until=until,
    )
