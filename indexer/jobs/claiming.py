"""The loop that looks for jobs and claims them, lane by lane."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from random import Random
from time import monotonic

from indexer.db.connection import Connection, Database
from indexer.jobs.backlog import any_job_left
from indexer.jobs.claims import FRONT, Lane, Mark, claim, pending_lanes
from indexer.jobs.endings import release_strays
from indexer.jobs.job import Job
from indexer.jobs.lanes import MOST_URGENT, Lanes
from indexer.jobs.listen import WakeUps
from indexer.jobs.marks import ScanMarks
from indexer.jobs.observer import Observer
from indexer.jobs.refills import Refills
from indexer.jobs.running import Group, RunningJobs
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
        lanes: Lanes,
        settings: WorkerSettings,
        wakeups: WakeUps,
        observer: Observer,
        random: Random,
    ) -> None:
        self._database = database
        self._running = running
        self._worker = worker
        self._lanes = lanes
        self._groups = running.groups
        self._kinds = [kind for group in self._groups for kind in group.kinds]
        self._marks = ScanMarks()
        self._settings = settings
        self._wakeups = wakeups
        self._observer = observer
        self._random = random
        self._is_stopped = False
        self._is_hungry = False
        self._has_waited = False
        self._is_looking = False
        # How many jobs were asked for, and not answered yet.
        self._asked: Counter[str] = Counter()
        self._refills = Refills(self._refill, on_dry=wakeups.wake)
        self._looked_at: float | None = None

    def stop(self) -> None:
        """Claim no more; a claim that is under way still comes back."""
        self._is_stopped = True
        self._wakeups.wake()

    def job_ended(self) -> None:
        """Look again where the last look left jobs behind, or the last job ended."""
        if self._refills.is_flowing and (
            self._is_looking or self._marks.rest_seconds() > 0
        ):
            self._start_refills()
        elif self._is_hungry or not self._running:
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
        # Their claims are no strays, and what they failed with is over.
        await self._refills.settle()
        async with self._database.connection() as conn:
            strays = await release_strays(
                conn, worker=self._worker, known=self._running.ids
            )
        if strays:
            _LOG.warning("handed back %s claims whose answer was lost", strays)
        try:
            await self._look_until_stopped(drain=drain)
            await self._refills.settle()
        except asyncio.CancelledError:
            await self._refills.end()
            raise

    async def _look_until_stopped(self, *, drain: bool) -> None:
        while not self._is_stopped:
            self._refills.raise_failure()
            self._is_looking = True
            try:
                pause = await self._fill()
            finally:
                self._is_looking = False
            self._looked_at = monotonic()
            if drain and not self._running and not self._refills:
                if not await self._is_any_left():
                    return
                pause = min(pause, _DRAIN_POLL_SECONDS)
            if await self._wakeups.wait(pause) in ("notified", "listening"):
                self._marks.wake()

    async def _is_any_left(self) -> bool:
        async with self._database.connection() as conn:
            return await any_job_left(conn, kinds=self._kinds)

    async def _fill(self) -> float:
        """Claim for the free slots; return for how many seconds to wait at most."""
        self._is_hungry = True
        if not self._has_room(MOST_URGENT):
            return self._poll_seconds()
        async with self._database.connection() as conn:
            is_due = self._marks.rest_seconds() == 0
            # A job that wakes an idle worker is most likely behind the marks. Once is
            # enough: or the slots are filled before anybody looks from the front.
            may_wait = self._marks.is_woken and not self._running
            if is_due and (self._has_waited or not may_wait):
                return await self._look_from_the_front(conn)
            if await self._look_ahead(conn):
                self._has_waited = is_due
                return self._go_on()
            if is_due:
                return await self._look_from_the_front(conn)
        # What lies in front of the marks is looked for as soon as its turn comes.
        self._is_hungry = not self._all_have_room()
        return self._pause(max(self._marks.rest_seconds(), _SHORTEST_PAUSE_SECONDS))

    async def _look_ahead(self, conn: Connection) -> bool:
        """Claim behind the marks, in lanes that are known; tell whether there is more.

        Costs a probe of an index a lane, whatever lies in front.
        """
        for priority in filter(self._lanes.serves, self._marks.lanes):
            if await self._claim_lane(conn, priority, use_marks=True):
                return True
        return False

    async def _look_from_the_front(self, conn: Connection) -> float:
        self._has_waited = False
        began = self._marks.begin()
        pause = self._poll_seconds()
        more = False
        lanes = await pending_lanes(conn)
        self._marks.measure(lanes)
        for lane in lanes:
            wait = self._lanes.wait_seconds(lane)
            if wait is None:
                continue
            if wait > 0:
                pause = min(pause, max(wait, _SHORTEST_PAUSE_SECONDS))
                if lane.due_in.total_seconds() > 0:
                    for group in self._groups:
                        self._marks.exhausted(lane, group.name)
            elif more:
                # Its turn comes behind this one's.
                self._marks.see(lane.priority)
            else:
                more = await self._claim_lane(conn, lane.priority, lane=lane)
        self._marks.end(began)
        if more:
            return self._go_on()
        self._is_hungry = not self._all_have_room()
        return pause

    async def _claim_lane(
        self,
        conn: Connection,
        priority: int,
        *,
        lane: Lane | None = None,
        use_marks: bool = False,
    ) -> bool:
        """Start what is due in a lane; tell whether there may be more."""
        more = False
        for group in self._groups:
            after = self._marks.after(priority, group.name) if use_marks else FRONT
            while (room := self._room(group, priority)) > 0 and not self._is_stopped:
                limit = min(room, self._settings.claim_batch or room)
                jobs = await self._claim(conn, group, priority, limit, after)
                self._marks.claimed(priority, group.name, jobs)
                if len(jobs) < limit:
                    if lane is not None:
                        self._marks.exhausted(lane, group.name)
                    break
                more = True
                if priority > MOST_URGENT:
                    break
                # Nobody else fills the slots that are kept for this lane.
                after = self._marks.after(priority, group.name)
        return more

    async def _claim(
        self, conn: Connection, group: Group, priority: int, limit: int, after: Mark
    ) -> list[Job]:
        sent_at = monotonic()
        self._asked[group.name] += limit
        try:
            jobs = await claim(
                conn,
                worker=self._worker,
                kinds=group.kinds,
                limit=limit,
                lease=self._settings.lease,
                priority=priority,
                deadline=self._settings.job_deadline,
                after=after,
                magnitude=self._marks.magnitude,
            )
        finally:
            self._asked[group.name] -= limit
        self._observer.claimed(len(jobs), seconds=monotonic() - sent_at)
        if jobs:
            group.start(jobs, sent_at, limit)
        return jobs

    async def _refill(self) -> bool:
        """Claim once behind the marks; tell whether there is more."""
        async with self._database.connection() as conn:
            return await self._look_ahead(conn)

    def _go_on(self) -> float:
        """There is more: claim for what is free still; return how long to wait."""
        if self._settings.claim_batch is None:
            return self._pause(0.0)
        self._start_refills()
        return self._poll_seconds()

    def _start_refills(self) -> None:
        """Have as many claims under way as the free slots take."""
        batch = self._settings.claim_batch
        if batch is None or self._is_stopped:
            return
        free = sum(max(0, group.room(self._lanes.last)) for group in self._groups)
        self._refills.is_flowing = True
        self._refills.start(-(-free // batch))

    def _room(self, group: Group, priority: int) -> int:
        return group.room(priority) - self._asked[group.name]

    def _all_have_room(self) -> bool:
        return all(self._room(group, self._lanes.last) > 0 for group in self._groups)

    def _pause(self, seconds: float) -> float:
        """Wait for a free slot where there is none.

        What woke us may be the first job of the most urgent lane, for which there are
        slots yet: it is looked for from the front as soon as that has its turn.
        """
        if self._has_room(self._lanes.last):
            return seconds
        if self._marks.is_woken and self._has_room(MOST_URGENT):
            return max(self._marks.rest_seconds(), _SHORTEST_PAUSE_SECONDS)
        return self._poll_seconds()

    def _has_room(self, priority: int) -> bool:
        return any(self._room(group, priority) > 0 for group in self._groups)

    def _poll_seconds(self) -> float:
        pause = self._settings.poll_interval.total_seconds()
        return pause * self._random.uniform(0.8, 1.0)
