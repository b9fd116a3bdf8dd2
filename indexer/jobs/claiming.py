"""The loop that looks for jobs and claims them, lane by lane."""

from __future__ import annotations

import logging
from collections.abc import Collection
from random import Random
from time import monotonic

from indexer.db.connection import Connection, Database
from indexer.jobs.backlog import any_job_left
from indexer.jobs.claims import claim, pending_lanes
from indexer.jobs.endings import release_strays
from indexer.jobs.listen import WakeUps
from indexer.jobs.observer import Observer
from indexer.jobs.running import RunningJobs
from indexer.jobs.settings import WorkerSettings

_LOG = logging.getLogger(__name__)

# While it drains and only others still run jobs, nobody wakes us when they end.
_DRAIN_POLL_SECONDS = 1.0
# The soonest look at a job that is about to become due; keeps the loop from spinning.
_SHORTEST_PAUSE_SECONDS = 0.01
# Not looking for this many poll intervals is a fault: even a full worker looks.
_LOOKS_MISSED = 3


class ClaimLoop:
    """Keeps the free slots of a worker filled with due jobs."""

    def __init__(
        self,
        database: Database,
        *,
        running: RunningJobs,
        worker: str,
        kinds: Collection[str],
        settings: WorkerSettings,
        wakeups: WakeUps,
        observer: Observer,
        random: Random,
    ) -> None:
        self._database = database
        self._running = running
        self._worker = worker
        self._kinds = kinds
        self._settings = settings
        self._wakeups = wakeups
        self._observer = observer
        self._random = random
        self._is_stopped = False
        self._is_hungry = False
        self._looked_at: float | None = None

    def stop(self) -> None:
        """Claim no more; a claim that is under way still comes back."""
        self._is_stopped = True
        self._wakeups.wake()

    def job_ended(self) -> None:
        """Look again where the last look left jobs behind, or the last job ended."""
        if self._is_hungry or not self._running:
            self._wakeups.wake()

    def complaint(self) -> str | None:
        """Say why the queue is not looked into; None while it is."""
        if self._looked_at is None:
            return "the queue was not reached yet"
        silent = monotonic() - self._looked_at
        if silent > _LOOKS_MISSED * self._settings.poll_interval.total_seconds():
            return f"the queue was not reached for {silent:.0f} s"
        return None

    async def loop(self, *, drain: bool) -> None:
        """Claim until told to stop; with ``drain`` until nothing is left to run."""
        async with self._database.connection() as conn:
            strays = await release_strays(
                conn, worker=self._worker, known=self._running.ids
            )
        if strays:
            _LOG.warning("handed back %s claims whose answer was lost", strays)
        while not self._is_stopped:
            pause = await self._fill()
            self._looked_at = monotonic()
            if drain and not self._running:
                if not await self._is_any_left():
                    return
                pause = min(pause, _DRAIN_POLL_SECONDS)
            await self._wakeups.wait(pause)

    async def _is_any_left(self) -> bool:
        async with self._database.connection() as conn:
            return await any_job_left(conn, kinds=self._kinds)

    async def _fill(self) -> float:
        """Claim for the free slots; return for how many seconds to wait at most."""
        more = self._free() <= 0
        pause = self._settings.poll_interval.total_seconds()
        pause *= self._random.uniform(0.8, 1.0)
        if not more:
            async with self._database.connection() as conn:
                for lane in await pending_lanes(conn):
                    due_in = lane.due_in.total_seconds()
                    if self._is_stopped:
                        break
                    if due_in > 0:
                        pause = min(pause, max(due_in, _SHORTEST_PAUSE_SECONDS))
                    elif await self._claim_lane(conn, lane.priority):
                        more = True
                        break
        self._is_hungry = more
        return 0.0 if more and self._free() > 0 else pause

    async def _claim_lane(self, conn: Connection, priority: int) -> bool:
        """Start what is due in a lane; tell whether there may be more."""
        limit = min(self._free(), self._settings.claim_batch or 1000)
        sent_at = monotonic()
        jobs = await claim(
            conn,
            worker=self._worker,
            kinds=self._kinds,
            limit=limit,
            lease=self._settings.lease,
            priority=priority,
            deadline=self._settings.job_deadline,
        )
        self._observer.claimed(len(jobs), seconds=monotonic() - sent_at)
        for job in jobs:
            self._running.start(job, sent_at=sent_at)
        return len(jobs) >= limit

    def _free(self) -> int:
        return self._settings.concurrency - len(self._running)
