"""The jobs that a worker runs now."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from time import monotonic
from uuid import UUID

from indexer.db.connection import Database
from indexer.jobs.completions import LARGEST, Completions
from indexer.jobs.execution import Execution, Interruption
from indexer.jobs.heartbeat import Beat, HeartbeatThread
from indexer.jobs.job import Job
from indexer.jobs.lanes import MOST_URGENT
from indexer.jobs.observer import Ending, Observer
from indexer.jobs.quick import BatchSize, Handler, QuickJobs
from indexer.jobs.settings import WorkerSettings
from indexer.jobs.settle import Settled, Settler
from indexer.jobs.workers import Identity
from indexer.log import fields

# The most urgent lane has slots of its own beside the others, one for so many: beside a
# backfill that uses up the machine a job of the tip takes longer than a fast chain's
# block.
_SLOTS_A_SPARE = 2

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class WorkerStats:
    """What a worker did: how many claims, and how they ended."""

    claimed: int = 0
    endings: dict[Ending, int] = field(default_factory=lambda: dict.fromkeys(Ending, 0))

    def named_endings(self) -> dict[str, int]:
        """Return the endings by their names."""
        return {ending.value: count for ending, count in self.endings.items()}

    def add(self, claimed: int, endings: Mapping[str, int]) -> None:
        """Count what another worker did, its endings by their names."""
        self.claimed += claimed
        for name, count in endings.items():
            self.endings[Ending(name)] += count


@dataclass(frozen=True)
class Group:
    """Kinds that are claimed together: how many more may be, and how they start.

    ``room`` takes the lane's priority; ``start`` the jobs, the monotonic time at which
    the claim was sent, and how many were asked for.
    """

    name: str
    kinds: Sequence[str]
    room: Callable[[int], int]
    start: Callable[[Sequence[Job], float, int], None]


class RunningJobs:
    """Starts handlers, keeps their claims alive, and writes down how they end.

    ``quick`` are the kinds whose handlers return soon and without ``finish()``; they
    have slots of their own, as many again. ``on_end`` is called after each job;
    ``on_silence`` when a heartbeat got no answer.
    """

    def __init__(
        self,
        database: Database,
        *,
        handlers: Mapping[str, Handler],
        quick: Collection[str],
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
        self._concurrency = settings.concurrency
        self._quick_kinds = frozenset(quick)
        completions = Completions(database, random=random)
        self._settler = Settler(
            database,
            max_errors=settings.max_errors,
            completions=None if settings.claim_batch == 1 else completions,
            random=random,
        )
        self._quick = QuickJobs(
            handlers=handlers,
            settler=self._settler,
            completions=completions,
            concurrency=settings.concurrency,
            batch=BatchSize(
                least=settings.claim_batch or settings.concurrency,
                most=settings.claim_batch or LARGEST,
            ),
            on_end=self._end,
            on_low=on_end,
        )
        self._running: dict[int, Execution] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()
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
        """The ids of all jobs whose claims are held."""
        return list(self._running)

    @property
    def groups(self) -> list[Group]:
        """The kinds by how they are run, and what may be claimed of each."""
        quick = [kind for kind in self._handlers if kind in self._quick_kinds]
        others = [kind for kind in self._handlers if kind not in self._quick_kinds]
        groups = [
            Group("quick", quick, lambda _: self._quick.room(), self._start_quick),
            Group("ordinary", others, self._free_slots, self._start),
        ]
        return [group for group in groups if group.kinds]

    def _free_slots(self, priority: int) -> int:
        free = self._concurrency - len(self._tasks)
        if priority <= MOST_URGENT:
            free += -(-self._concurrency // _SLOTS_A_SPARE)
        return max(0, free)

    def _start(self, jobs: Sequence[Job], sent_at: float, limit: int) -> None:
        for execution in self._executions(jobs, sent_at):
            task = asyncio.create_task(self._run(execution))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _start_quick(self, jobs: Sequence[Job], sent_at: float, limit: int) -> None:
        self._quick.start(self._executions(jobs, sent_at), limit=limit)

    def _executions(self, jobs: Sequence[Job], sent_at: float) -> list[Execution]:
        self.stats.claimed += len(jobs)
        self._heartbeat.add_all(jobs, sent_at=sent_at)
        made = []
        for job in jobs:
            execution = Execution(
                job,
                database=self._database,
                lease=self._lease,
                renewed=self._note_renewed,
                random=self._random,
            )
            if job.cancel_requested:
                execution.interrupt(Interruption.CANCELLED)
            self._running[job.id] = execution
            made.append(execution)
        if made:
            self._is_empty.clear()
        return made

    async def wait_empty(self) -> None:
        """Wait until every job's end is written down."""
        await self._is_empty.wait()

    def interrupt_all(self) -> None:
        """Tell every handler to stop, to hand its job back.

        Quick jobs that have not begun are let go; who signs off hands them back.
        """
        for execution in self._quick.take_waiting():
            self._end(execution, Settled(Ending.RELEASED), 0.0)
        for execution in list(self._running.values()):
            execution.interrupt(Interruption.SHUTDOWN)

    def cancel_all(self) -> None:
        """Wait for nobody any more."""
        for task in list(self._tasks):
            task.cancel()
        self._quick.cancel()

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
            settled = await self._settler.settle(execution, _error_of(handler))
        except Exception:  # noqa: BLE001 - logged with its traceback
            _LOG.exception("job %s: cannot write down how it ended", job.id)
        finally:
            # Now and not a turn later, for the end is when the next job is claimed.
            self._free(asyncio.current_task())
            self._end(execution, settled, monotonic() - started)

    def _free(self, task: asyncio.Task[None] | None) -> None:
        if task is not None:
            self._tasks.discard(task)

    def _end(self, execution: Execution, settled: Settled, seconds: float) -> None:
        job = execution.job
        del self._running[job.id]
        self._heartbeat.remove(job.id, job.claim_token)
        self.stats.endings[settled.ending] += 1
        self._observer.ended(
            job, settled.ending, reason=settled.reason, seconds=seconds
        )
        # A line for each of thousands a second would cost more than the jobs do.
        level = logging.DEBUG if job.kind in self._quick_kinds else logging.INFO
        if _LOG.isEnabledFor(level):
            _LOG.log(
                level,
                "job %s %s: %s in %.3f s, attempt %s",
                job.id,
                job.summary(),
                settled.ending.value,
                seconds,
                job.attempts,
                extra=fields(**execution.result) if execution.result else None,
            )
        if not self._running:
            self._is_empty.set()
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
            each
            for each in found
            if each is not None and (each.job.id, each.token) in claims
        ]

    def _note_renewed(self, job_id: int, token: UUID, sent_at: float) -> None:
        self._heartbeat.renewed(job_id, token, sent_at=sent_at)
        self._observer.committed(seconds=monotonic() - sent_at)


async def _as_coroutine(handlers: Mapping[str, Handler], execution: Execution) -> None:
    await handlers[execution.job.kind](execution)


def _error_of(handler: asyncio.Task[None]) -> BaseException | None:
    if not handler.done() or handler.cancelled():
        return asyncio.CancelledError()
    return handler.exception()


def _forget_result(handler: asyncio.Task[None]) -> None:
    if not handler.cancelled():
        handler.exception()
