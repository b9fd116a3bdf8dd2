"""The follower's loop: take the role, look at the head, go up, wait."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import timedelta

from indexer.backoff import delay_seconds
from indexer.chain.endpoints import Endpoints
from indexer.chain.lead import Lead
from indexer.chain.tip import HeadWatcher
from indexer.db.connection import Database
from indexer.errors import (
    ChainDataError,
    FinalityViolated,
    LeaseLost,
    NotYetAvailable,
    RpcError,
    TransientError,
)
from indexer.jobs.workers import Identity
from indexer.metrics import Metrics
from indexer.services.chainprofile import make_prover
from indexer.services.follow import cursor
from indexer.services.follow.cursor import Start
from indexer.services.follow.role import Role
from indexer.services.follow.walk import Walk
from indexer.services.follow.watchdog import Watchdog
from indexer.services.identity import check_identity
from indexer.services.proofs import Level, Prover
from indexer.store.copy import RangeNotFresh
from indexer.tasks import end_tasks

# How long a hint of a new head is waited for before the head is asked for.
_LOOK_SECONDS = 1.0

log = logging.getLogger(__name__)


class Follower:
    """Keeps the stored tip equal to the chain's."""

    def __init__(
        self,
        database: Database,
        endpoints: Endpoints,
        *,
        name: str,
        prover: Prover,
        lease: timedelta,
        finality_depth: int | None = None,
        start: Start = None,
        until: int | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._database = database
        self._endpoints = endpoints
        self._finality_depth = finality_depth
        self._start = start
        self._until = until
        self._metrics = metrics if metrics is not None else Metrics()
        self._watcher = HeadWatcher(endpoints)
        self._watchdog = Watchdog()
        self._lead = Lead(endpoints)
        self._role = Role(database, holder=name, lease=lease)
        self._walk = Walk(
            database,
            self._lead,
            self._role,
            prover=prover,
            depth=finality_depth,
            metrics=self._metrics,
            watchdog=self._watchdog,
        )
        self._has_begun = False
        self._failures = 0
        self._failing_since: float | None = None
        self._stopping = asyncio.Event()

    @property
    def next_height(self) -> int:
        """The next height that is wanted, -1 while that is not known."""
        return self._walk.next_height

    def request_stop(self) -> None:
        """End after the transaction under way."""
        self._stopping.set()

    def complaint(self) -> str | None:
        """Say why the tip does not rise, or None while it does or another follows."""
        return self._watchdog.complaint()

    async def run(self) -> int:
        """Follow until told to stop or ``until`` is stored; return blocks written.

        Outages of the node and the database are waited out, reorganisations handled.
        Raises FinalityViolated where a node contradicts what is final, and
        IndexerError where a reorganisation has no finalized height to bound it.
        """
        async with self._role.kept(), self._walk.finality.kept():
            while not self._stopping.is_set() and not self._is_done():
                await self._attempt()
        return self._walk.blocks_written

    def _is_done(self) -> bool:
        return (
            self._has_begun
            and self._until is not None
            and self.next_height > self._until
        )

    async def _attempt(self) -> None:
        """Do a step; wait out whatever may pass by itself."""
        self._watchdog.warn()
        try:
            await self._step()
        except FinalityViolated:
            raise
        except LeaseLost:
            log.warning("another follower took over; standing by")
            self._role.drop()
        except (NotYetAvailable, RangeNotFresh) as error:
            # Announced before it can be fetched, asked of a node behind, or stored
            # by a worker in the same moment: look again, less and less eagerly.
            await self._wait_out(error, base=0.025, cap=1.0, level=logging.DEBUG)
        except (TransientError, RpcError, ChainDataError) as error:
            await self._wait_out(error, base=0.5, cap=30.0, level=logging.WARNING)
        else:
            self._failures = 0
            self._failing_since = None
            self._role.is_resting = False

    async def _wait_out(
        self, error: Exception, *, base: float, cap: float, level: int
    ) -> None:
        delay = delay_seconds(self._failures, base=base, cap=cap)
        self._failures += 1
        log.log(level, "%s; trying again in %.2f s", error, delay)
        self._watchdog.because(str(error))
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        # Whoever stands by may have a better view of the node than we do.
        self._role.is_resting = (
            now - self._failing_since > self._role.lease.total_seconds()
        )
        await self._pause(delay)

    async def _step(self) -> None:
        if not self._role.is_held and not await self._take_role():
            return
        head = await self._lead.head(wanted=self.next_height)
        self._metrics.head_height.set(head.number)
        last = head.number if self._until is None else min(head.number, self._until)
        if last < self.next_height:
            await self._walk.look(head)
            await self._wait_for_head()
            return
        while self.next_height <= last and not self._stopping.is_set():
            at = self.next_height
            if not await self._walk.advance(head, last):
                if self.next_height == at:
                    await self._pause(_LOOK_SECONDS)
                return
        self._walk.finality.tip_rose()

    async def _wait_for_head(self) -> None:
        """Wait for a hint, a stop or a second, whatever comes first."""
        hint = asyncio.ensure_future(self._watcher.wait(_LOOK_SECONDS))
        stop = asyncio.ensure_future(self._stopping.wait())
        done, pending = await asyncio.wait(
            {hint, stop}, return_when=asyncio.FIRST_COMPLETED
        )
        await end_tasks(*pending)
        if hint in done:
            hint.result()

    async def _take_role(self) -> bool:
        again = await self._role.claim()
        if again is not None:
            self._watchdog.rest()
            await self._pause(again)
            return False
        self._watchdog.watch()
        try:
            await self._begin()
        except BaseException:
            # Whatever was not looked at has to be the next time, by whomever.
            await self._role.give_back()
            raise
        return True

    async def _begin(self) -> None:
        if self._has_begun:
            # Another process had the role and may have gone further.
            height = await cursor.resumed_height(
                self._database, left_at=self.next_height
            )
        else:
            height = await cursor.first_height(
                self._database,
                self._endpoints,
                start=self._start,
                depth=self._finality_depth,
            )
        await self._walk.begin(height)
        self._has_begun = True
        self._walk.finality.tip_rose()
        log.info("following from block %d", self.next_height)
        await cursor.plan_hole(self._database, start=self.next_height)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return


async def make_follower(
    database: Database,
    endpoints: Endpoints,
    *,
    lease: timedelta,
    verify: Level = "auto",
    finality_depth: int | None = None,
    start: Start = None,
    until: int | None = None,
    metrics: Metrics | None = None,
) -> Follower:
    """Check the nodes and return a follower that is ready to run.

    Raises WrongChain where a node serves another chain than the schema holds.
    """
    await check_identity(database, endpoints)
    return Follower(
        database,
        endpoints,
        name=Identity.of_this_process(role="follow").name,
        prover=await make_prover(database, endpoints, level=verify),
        lease=lease,
        finality_depth=finality_depth,
        start=start,
        until=until,
        metrics=metrics,
    )
