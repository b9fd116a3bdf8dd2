"""The worker: claims jobs, runs their handlers, and stops in order.

It knows nothing of what the jobs do. Its loops are supervised: whatever happens in
one is logged, and the loop goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from time import monotonic
from typing import Any

import psycopg

from indexer.db.connection import Connection, Database
from indexer.errors import IndexerError
from indexer.jobs.backlog import any_job_left
from indexer.jobs.claims import claim, pending_lanes
from indexer.jobs.endings import release_strays
from indexer.jobs.execution import Execution
from indexer.jobs.listen import WakeUps
from indexer.jobs.observer import NoObserver, Observer
from indexer.jobs.patience import keep_going
from indexer.jobs.running import Handler, RunningJobs, WorkerStats
from indexer.jobs.settings import WorkerSettings
from indexer.jobs.upkeep import Upkeep
from indexer.jobs.workers import Identity, forget, worker_name

__all__ = [
    "Execution",
    "Handler",
    "Worker",
    "WorkerSettings",
    "WorkerStats",
    "worker_name",
]

_LOG = logging.getLogger(__name__)

# While it drains and only others still run jobs, nobody wakes us when they end.
_DRAIN_POLL_SECONDS = 1.0
# The soonest look at a job that is about to become due; keeps the loop from spinning.
_SHORTEST_PAUSE_SECONDS = 0.01
# Not looking for this many poll intervals is a fault: even a full worker looks.
_LOOKS_MISSED = 3
# What a claim under way gets to come back with its jobs, so that they are handed back.
_CLAIM_SECONDS = 2.0
# Of the grace time this much is for handing back, but at most a fifth of it.
_HAND_BACK_SECONDS = 5.0


class Worker:
    """Runs jobs of the kinds it has handlers for.

    ``database`` is open; a handler takes a connection of its pool only while it
    writes, the claim loop and the upkeep take one each now and then. The heartbeat
    and LISTEN open one each besides.
    """

    def __init__(
        self,
        database: Database,
        *,
        handlers: Mapping[str, Handler],
        settings: WorkerSettings,
        listen_url: str | None = None,
        name: str | None = None,
        observer: Observer | None = None,
        random: Random | None = None,
    ) -> None:
        """``listen_url`` None is the database's; ``name`` None is a new one."""
        self._database = database
        self._handlers = dict(handlers)
        self._settings = settings
        self._identity = Identity.of_this_process(
            name=name,
            role="work",
            concurrency=settings.concurrency,
            kinds=list(self._handlers),
        )
        self._observer = observer if observer is not None else NoObserver()
        self._random = random if random is not None else Random()
        self._wakeups = WakeUps(listen_url or database.url, schema=database.schema)
        self._upkeep = Upkeep(
            database, settings, observer=self._observer, random=self._random
        )
        self._running: RunningJobs | None = None
        self._is_hungry = False
        self._last_look: float | None = None
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    @property
    def name(self) -> str:
        """The ``locked_by`` of this worker's claims."""
        return self._identity.name

    @property
    def is_listening(self) -> bool:
        """Whether notifications arrive; else new jobs are found by polling."""
        return self._wakeups.is_listening

    def complaint(self) -> str | None:
        """Say why this worker makes no progress; None while it does."""
        if self._last_look is None:
            return "the queue was not reached yet"
        silent = monotonic() - self._last_look
        if silent > _LOOKS_MISSED * self._settings.poll_interval.total_seconds():
            return f"the queue was not reached for {silent:.0f} s"
        return None

    def request_stop(self) -> None:
        """Stop claiming, and finish or hand back within the grace time.

        Called again: hand back at once. To be called in the event loop.
        """
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()
        self._wakeups.wake()

    async def run(self, *, drain: bool = False) -> WorkerStats:
        """Run jobs until told to stop; with ``drain`` until nothing is left to run.

        Nothing is left when no job of our kinds is pending, due or not, and none is
        running anywhere: it waits for retries and for other workers' leases.
        """
        running = self._running = RunningJobs(
            self._database,
            handlers=self._handlers,
            settings=self._settings,
            identity=self._identity,
            observer=self._observer,
            on_end=self._job_ended,
            on_silence=self._upkeep.hold_reaper,
            random=self._random,
        )
        background = [
            asyncio.create_task(self._forever("listening", self._wakeups.run)),
            asyncio.create_task(self._forever("reaping", self._upkeep.reap)),
            asyncio.create_task(self._forever("housekeeping", self._upkeep.keep_house)),
        ]
        try:
            await self._claim(running, drain=drain)
            await self._let_finish(running)
        finally:
            await self._hand_back(running)
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await self._leave()
        return running.stats

    async def _claim(self, running: RunningJobs, *, drain: bool) -> None:
        async def loop() -> None:
            await self._claim_loop(running, drain=drain)

        claiming = asyncio.create_task(
            keep_going("claiming jobs", loop, random=self._random)
        )
        stopped = asyncio.create_task(self._stop.wait())
        watched: set[asyncio.Task[Any]] = {claiming, stopped}
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({claiming}, timeout=_CLAIM_SECONDS)
        finally:
            for task in watched:
                task.cancel()
            await asyncio.gather(*watched, return_exceptions=True)

    async def _claim_loop(self, running: RunningJobs, *, drain: bool) -> None:
        async with self._database.connection() as conn:
            strays = await release_strays(conn, worker=self.name, known=running.ids)
        if strays:
            _LOG.warning("handed back %s claims whose answer was lost", strays)
        while not self._stop.is_set():
            pause = await self._fill(running)
            self._last_look = monotonic()
            if drain and not running:
                if not await self._is_any_left():
                    return
                pause = min(pause, _DRAIN_POLL_SECONDS)
            await self._wakeups.wait(pause)

    async def _is_any_left(self) -> bool:
        async with self._database.connection() as conn:
            return await any_job_left(conn, kinds=self._handlers)

    async def _fill(self, running: RunningJobs) -> float:
        """Claim for the free slots; return for how many seconds to wait at most."""
        more = self._free(running) <= 0
        pause = self._settings.poll_interval.total_seconds()
        pause *= self._random.uniform(0.8, 1.0)
        if not more:
            async with self._database.connection() as conn:
                for lane in await pending_lanes(conn):
                    due_in = lane.due_in.total_seconds()
                    if self._stop.is_set():
                        break
                    if due_in > 0:
                        pause = min(pause, max(due_in, _SHORTEST_PAUSE_SECONDS))
                    elif await self._claim_lane(conn, running, lane.priority):
                        more = True
                        break
        self._is_hungry = more
        return 0.0 if more and self._free(running) > 0 else pause

    async def _claim_lane(
        self, conn: Connection, running: RunningJobs, priority: int
    ) -> bool:
        """Start what is due in a lane; tell whether there may be more."""
        limit = min(self._free(running), self._settings.claim_batch or 1000)
        sent_at = monotonic()
        jobs = await claim(
            conn,
            worker=self.name,
            kinds=self._handlers,
            limit=limit,
            lease=self._settings.lease,
            priority=priority,
            deadline=self._settings.job_deadline,
        )
        self._observer.claimed(len(jobs), seconds=monotonic() - sent_at)
        for job in jobs:
            running.start(job, sent_at=sent_at)
        return len(jobs) >= limit

    def _free(self, running: RunningJobs) -> int:
        return self._settings.concurrency - len(running)

    def _job_ended(self) -> None:
        if self._is_hungry or not self._running:
            self._wakeups.wake()

    async def _let_finish(self, running: RunningJobs) -> None:
        grace = self._settings.grace.total_seconds() - self._hand_back_seconds()
        hurry = asyncio.create_task(self._hurry.wait())
        finished = asyncio.gather(*running.tasks, return_exceptions=True)
        watched: set[asyncio.Future[Any]] = {hurry, finished}
        await asyncio.wait(watched, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()

    async def _hand_back(self, running: RunningJobs) -> None:
        """Interrupt what still runs, so that its claims are given back."""
        running.interrupt_all()
        tasks = running.tasks
        if tasks:
            await asyncio.wait(tasks, timeout=self._hand_back_seconds() / 2)
        for task in tasks:
            task.cancel()
        await running.stop_heartbeat()

    async def _leave(self) -> None:
        """Give back whatever is still held under our name, and sign off."""
        try:
            async with (
                asyncio.timeout(self._hand_back_seconds() / 2),
                self._database.connection() as conn,
            ):
                await release_strays(conn, worker=self.name, known=[])
                await forget(conn, name=self.name)
        except (TimeoutError, IndexerError, psycopg.Error) as error:
            _LOG.warning("could not sign off, leases will end by themselves: %s", error)

    def _hand_back_seconds(self) -> float:
        return min(_HAND_BACK_SECONDS, self._settings.grace.total_seconds() / 5)

    async def _forever(self, doing: str, body: Callable[[], Awaitable[None]]) -> None:
        while True:
            await keep_going(doing, body, random=self._random)
