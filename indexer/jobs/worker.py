"""The worker: claims jobs, runs their handlers, and stops in order.

It knows nothing of what the jobs do. Its loops are supervised: whatever happens in
one is logged, and the loop goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import psycopg

from indexer.db.connection import Database
from indexer.errors import IndexerError
from indexer.jobs.claiming import ClaimLoop
from indexer.jobs.endings import release_strays
from indexer.jobs.execution import Execution
from indexer.jobs.lanes import Lanes
from indexer.jobs.listen import WakeUps
from indexer.jobs.observer import NoObserver, Observer
from indexer.jobs.patience import keep_going
from indexer.jobs.quick import Handler
from indexer.jobs.running import RunningJobs, WorkerStats
from indexer.jobs.settings import WorkerSettings
from indexer.jobs.upkeep import Upkeep
from indexer.jobs.workers import Identity, forget, worker_name
from indexer.tasks import end_tasks

__all__ = [
    "Execution",
    "Handler",
    "Worker",
    "WorkerSettings",
    "WorkerStats",
    "worker_name",
]

_LOG = logging.getLogger(__name__)

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
        quick: Collection[str] = (),
        lanes: Lanes | None = None,
        listen_url: str | None = None,
        name: str | None = None,
        observer: Observer | None = None,
        random: Random | None = None,
    ) -> None:
        """``listen_url`` None is the database's; ``name`` None is a new one; ``lanes``
        None is all of them.

        ``quick`` are the kinds whose handlers return soon and without ``finish()``:
        they are claimed and completed in batches.
        """
        self._database = database
        self._handlers = dict(handlers)
        self._quick = frozenset(quick)
        self._lanes = Lanes() if lanes is None else lanes
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
        self._claims: ClaimLoop | None = None
        self._running: RunningJobs | None = None
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

    @property
    def heartbeat_age_seconds(self) -> float:
        """How long ago the last heartbeat was answered; 0 before the first."""
        return 0.0 if self._running is None else self._running.heartbeat_age_seconds

    @property
    def jobs_running(self) -> int:
        """How many claims are in flight."""
        return 0 if self._running is None else len(self._running)

    def complaint(self) -> str | None:
        """Say why this worker makes no progress; None while it does."""
        if self._claims is None:
            return "the worker is not running"
        return self._claims.complaint()

    def request_stop(self) -> None:
        """Stop claiming, and finish or hand back within the grace time.

        Called again: hand back at once. To be called in the event loop.
        """
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()
        if self._claims is not None:
            self._claims.stop()

    async def run(self, *, drain: bool = False) -> WorkerStats:
        """Run jobs until told to stop; with ``drain`` until nothing is left to run.

        Nothing is left when no job of our kinds is pending, due or not, and none is
        running anywhere: it waits for retries and for other workers' leases.
        """
        running = self._running = self._make_running()
        claims = self._claims = self._make_claims(running)
        if self._stop.is_set():
            claims.stop()
        background = [
            asyncio.create_task(self._forever("listening", self._wakeups.run)),
            asyncio.create_task(self._forever("reaping", self._upkeep.reap)),
            asyncio.create_task(self._forever("housekeeping", self._upkeep.keep_house)),
        ]
        try:
            await self._claim(claims, drain=drain)
            await self._let_finish(running)
        finally:
            await self._hand_back(running)
            await end_tasks(*background)
            await self._leave()
        return running.stats

    def _make_running(self) -> RunningJobs:
        return RunningJobs(
            self._database,
            handlers=self._handlers,
            quick=self._quick,
            settings=self._settings,
            identity=self._identity,
            observer=self._observer,
            on_end=self._job_ended,
            on_silence=self._upkeep.hold_reaper,
            random=self._random,
        )

    def _make_claims(self, running: RunningJobs) -> ClaimLoop:
        return ClaimLoop(
            self._database,
            running=running,
            worker=self.name,
            lanes=self._lanes,
            settings=self._settings,
            wakeups=self._wakeups,
            observer=self._observer,
            random=self._random,
        )

    def _job_ended(self) -> None:
        if self._claims is not None:
            self._claims.job_ended()

    async def _claim(self, claims: ClaimLoop, *, drain: bool) -> None:
        async def loop() -> None:
            await claims.loop(drain=drain)

        claiming = asyncio.create_task(
            keep_going("claiming jobs", loop, random=self._random)
        )
        stopped = asyncio.create_task(self._stop.wait())
        watched: set[asyncio.Task[Any]] = {claiming, stopped}
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({claiming}, timeout=_CLAIM_SECONDS)
        finally:
            await end_tasks(*watched)

    async def _let_finish(self, running: RunningJobs) -> None:
        grace = self._settings.grace.total_seconds() - self._hand_back_seconds()
        hurry = asyncio.create_task(self._hurry.wait())
        finished = asyncio.create_task(running.wait_empty())
        watched: set[asyncio.Future[Any]] = {hurry, finished}
        await asyncio.wait(watched, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
        await end_tasks(*watched)

    async def _hand_back(self, running: RunningJobs) -> None:
        """Interrupt what still runs, so that its claims are given back."""
        running.interrupt_all()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._hand_back_seconds() / 2):
                await running.wait_empty()
        running.cancel_all()
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
