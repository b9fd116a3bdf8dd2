"""The jobs that a worker runs now."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from time import monotonic
from typing import TypeAlias
from uuid import UUID

from indexer.db.connection import Database
from indexer.jobs.execution import Execution, Interruption
from indexer.jobs.heartbeat import Beat, HeartbeatThread
from indexer.jobs.job import Job
from indexer.jobs.observer import Ending, Observer
from indexer.jobs.settings import WorkerSettings
from indexer.jobs.settle import Settled, Settler
from indexer.jobs.workers import Identity
from indexer.log import fields

_LOG = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Execution], Awaitable[None]]


@dataclass(slots=True)
class WorkerStats:
    """What a worker did: how many claims, and how they ended."""

    claimed: int = 0
    endings: dict[Ending, int] = field(default_factory=lambda: dict.fromkeys(Ending, 0))


class RunningJobs:
    """Starts handlers, keeps their claims alive, and writes down how they end.

    ``on_end`` is called after each; ``on_silence`` when a heartbeat got no answer.
    """

    def __init__(
        self,
        database: Database,
        *,
        handlers: Mapping[str, Handler],
        settings: WorkerSettings,
        identity: Identity,
        observer: Observer,
        on_end: Callable[[], None],
        on_silence: Callable[[], None],
        random: Random,
    ) -> None:
        self.stats = WorkerStats()
        self._database = database
        self._handlers = handlers
        self._lease: timedelta = settings.lease
        self._observer = observer
        self._on_end = on_end
        self._on_silence = on_silence
        self._random = random
        self._settler = Settler(database, max_errors=settings.max_errors, random=random)
        self._running: dict[int, tuple[Execution, asyncio.Task[None]]] = {}
        self._loop = asyncio.get_running_loop()
        self._heartbeat = HeartbeatThread(
            database.url,
            schema=database.schema,
            identity=identity,
            lease=settings.lease,
            interval=settings.heartbeat_interval,
            tell=self._tell,
            prepared=bool(database.prepared),
            random=Random(random.random()),
        )
        self._heartbeat.start()

    def __len__(self) -> int:
        return len(self._running)

    @property
    def ids(self) -> list[int]:
        """The ids of the jobs that run now."""
        return list(self._running)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Their tasks, each of which ends when its job's end is written down."""
        return [task for _, task in self._running.values()]

    def start(self, job: Job, *, sent_at: float) -> None:
        """Run a claimed job; ``sent_at`` is when its claim was sent (monotonic)."""
        self.stats.claimed += 1
        self._heartbeat.add(job.id, job.claim_token, sent_at=sent_at)
        execution = Execution(
            job,
            database=self._database,
            lease=self._lease,
            renewed=self._note_renewed,
            random=self._random,
        )
        if job.cancel_requested:
            execution.interrupt(Interruption.CANCELLED)
        task = asyncio.create_task(self._run(execution))
        self._running[job.id] = (execution, task)

    def interrupt_all(self) -> None:
        """Tell every handler to stop, to hand its job back."""
        for execution, _ in self._running.values():
            execution.interrupt(Interruption.SHUTDOWN)

    @property
    def heartbeat_age_seconds(self) -> float:
        """How long ago the last heartbeat was answered."""
        return self._heartbeat.age_seconds

    async def stop_heartbeat(self) -> None:
        """Stop renewing claims."""
        await asyncio.to_thread(self._heartbeat.stop)

    async def _run(self, execution: Execution) -> None:
        job = execution.job
        started = monotonic()
        settled = Settled(Ending.LOST)
        try:
            handler = asyncio.create_task(_as_coroutine(self._handlers, execution))
            execution.attach(handler)
            await asyncio.wait(
                {handler, execution.given_up}, return_when=asyncio.FIRST_COMPLETED
            )
            if not handler.done():
                _LOG.error("job %s does not stop when told to; left behind", job.id)
                handler.add_done_callback(_forget_result)
            settled = await self._settler.settle(execution, handler)
        except Exception:  # noqa: BLE001 - logged with its traceback
            _LOG.exception("job %s: cannot write down how it ended", job.id)
        finally:
            self._end(execution, settled, monotonic() - started)

    def _end(self, execution: Execution, settled: Settled, seconds: float) -> None:
        job = execution.job
        del self._running[job.id]
        self._heartbeat.remove(job.id, job.claim_token)
        self.stats.endings[settled.ending] += 1
        self._observer.ended(
            job, settled.ending, reason=settled.reason, seconds=seconds
        )
        _LOG.info(
            "job %s %s: %s in %.3f s, attempt %s",
            job.id,
            job.summary(),
            settled.ending.value,
            seconds,
            job.attempts,
            extra=fields(**execution.result) if execution.result else None,
        )
        self._on_end()

    # From here on: the heartbeat's thread tells, the event loop heeds.

    def _tell(self, beat: Beat) -> None:
        # The loop is closed where the thread outlives its worker.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._heed, beat)

    def _heed(self, beat: Beat) -> None:
        if beat.failed:
            self._on_silence()
            self._observer.heartbeat_failed()
        for claims, why in (
            (beat.lost, Interruption.LOST),
            (beat.cancelled, Interruption.CANCELLED),
            (beat.overdue, Interruption.DEADLINE),
        ):
            for execution in self._of(claims):
                execution.interrupt(why)
        for execution in self._of(beat.lapsed):
            execution.suspect()

    def _of(self, claims: frozenset[tuple[int, UUID]]) -> list[Execution]:
        found = [self._running.get(job_id) for job_id, _ in claims]
        return [
            each[0]
            for each in found
            if each is not None and (each[0].job.id, each[0].token) in claims
        ]

    def _note_renewed(self, job_id: int, token: UUID, sent_at: float) -> None:
        self._heartbeat.renewed(job_id, token, sent_at=sent_at)
        self._observer.committed(seconds=monotonic() - sent_at)


async def _as_coroutine(handlers: Mapping[str, Handler], execution: Execution) -> None:
    await handlers[execution.job.kind](execution)


def _forget_result(handler: asyncio.Task[None]) -> None:
    if not handler.cancelled():
        handler.exception()
