"""Quick jobs: claimed by the hundred, run one after the other, completed together.

For kinds whose handlers return soon and leave the completion to the queue. A task a
job, a claim and a completion of its own would cost such a job a hundred times its work.
Jobs wait here under their leases, so no more are claimed than are run in a moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Protocol, TypeAlias

from indexer.jobs.completions import Completion, Completions
from indexer.jobs.execution import Execution
from indexer.jobs.observer import Ending
from indexer.jobs.settle import Settled, Settler

_LOG = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Execution], Awaitable[None]]

# Others in the event loop get their turn this often.
_TURN_SECONDS = 0.002
# Claimed jobs whose completion is not written yet, in batches.
_BATCHES_UNSETTLED = 3


class OnEnd(Protocol):
    """Called when a job's end is written down, or known to be another's."""

    def __call__(self, execution: Execution, settled: Settled, seconds: float) -> None:
        """Take note of it."""


class BatchSize:
    """How many jobs a claim asks for: as many as are run in about a tenth of a second.

    A worker with much to do and slow jobs must not hoard what others could run.
    """

    _SOON_SECONDS = 0.1
    _LATE_SECONDS = 0.4

    def __init__(self, *, least: int, most: int) -> None:
        self.size = self._least = min(least, most)
        self._most = most
        self._claimed_at = float("-inf")

    def claimed(self, count: int, limit: int) -> None:
        """Learn from a claim, by how soon it came after the one before."""
        now = monotonic()
        passed = now - self._claimed_at
        self._claimed_at = now
        if count < limit:
            return
        if passed < self._SOON_SECONDS:
            self.size = min(self._most, self.size * 4)
        elif passed > self._LATE_SECONDS:
            self.size = max(self._least, self.size // 2)


class QuickJobs:
    """Runs quick jobs in up to ``concurrency`` tasks, beside the ordinary ones."""

    def __init__(
        self,
        *,
        handlers: Mapping[str, Handler],
        settler: Settler,
        completions: Completions,
        concurrency: int,
        batch: BatchSize,
        on_end: OnEnd,
        on_low: Callable[[], None],
    ) -> None:
        """``on_low`` is called when there is room for another claim."""
        self._handlers = handlers
        self._settler = settler
        self._completions = completions
        self._concurrency = concurrency
        self._batch = batch
        self._on_end = on_end
        self._on_low = on_low
        self._waiting: deque[Execution] = deque()
        self._unsettled = 0
        self._runners: set[asyncio.Task[None]] = set()
        self._handling: dict[int, asyncio.Task[None]] = {}
        self._left_behind: set[int] = set()
        self._stuck: set[asyncio.Task[None]] = set()
        self._settling: set[asyncio.Task[None]] = set()

    def room(self) -> int:
        """Return how many more may be claimed; 0 until a claim is worth its while."""
        size = self._batch.size
        if len(self._waiting) * 2 > size:
            return 0
        if self._unsettled > size * _BATCHES_UNSETTLED:
            return 0
        return size - len(self._waiting)

    def start(self, executions: Sequence[Execution], *, limit: int) -> None:
        """Run claimed jobs; ``limit`` is how many were asked for."""
        self._batch.claimed(len(executions), limit)
        self._waiting.extend(executions)
        self._unsettled += len(executions)
        wanted = min(len(self._waiting), self._concurrency - len(self._runners))
        for _ in range(wanted):
            self._add_runner()

    def take_waiting(self) -> list[Execution]:
        """Give up the jobs that no handler has begun."""
        taken = list(self._waiting)
        self._waiting.clear()
        self._unsettled -= len(taken)
        return taken

    def cancel(self) -> None:
        """Stop waiting for handlers that do not stop."""
        for task in (*self._runners, *self._stuck, *self._settling):
            task.cancel()

    def _add_runner(self) -> None:
        task = asyncio.create_task(self._run())
        self._runners.add(task)
        task.add_done_callback(self._runners.discard)

    async def _run(self) -> None:
        turn = monotonic()
        while self._waiting:
            execution = self._waiting.popleft()
            started = monotonic()
            if started > turn + _TURN_SECONDS:
                await asyncio.sleep(0)
                turn = started
            error = await self._handle(execution)
            if execution.job.id in self._left_behind:
                # Settled by another, and another runner has taken our place.
                self._left_behind.discard(execution.job.id)
                return
            if error is None and not execution.is_finished:
                self._completions.add(
                    Completion(
                        execution.job.id,
                        execution.token,
                        partial(self._completed, execution, started),
                    )
                )
            else:
                await self._settle(execution, error, started)
            if len(self._waiting) == self._batch.size // 2:
                self._on_low()
        self._on_low()

    async def _handle(self, execution: Execution) -> BaseException | None:
        """Run a handler in our own task; return what it raised."""
        if execution.interruption is not None:
            return asyncio.CancelledError()
        runner = asyncio.current_task()
        assert runner is not None, "it runs in a task"
        execution.given_up.add_done_callback(partial(self._leave_behind, execution))
        execution.attach(runner)
        self._handling[execution.job.id] = runner
        error: BaseException | None = None
        try:
            await self._handlers[execution.job.kind](execution)
        except asyncio.CancelledError as cancelled:
            if execution.interruption is None:
                raise
            error = cancelled
        except Exception as raised:  # noqa: BLE001 - written down with the job
            error = raised
        finally:
            del self._handling[execution.job.id]
        if runner.cancelling():
            await _swallow_cancellation(runner)
        return error

    def _leave_behind(self, execution: Execution, _: object) -> None:
        runner = self._handling.get(execution.job.id)
        if runner is None:
            return
        # It holds no slot any more, whenever its handler may end.
        self._runners.discard(runner)
        self._stuck.add(runner)
        runner.add_done_callback(self._stuck.discard)
        _LOG.error("job %s does not stop when told to; left behind", execution.job.id)
        self._left_behind.add(execution.job.id)
        self._add_runner()
        task = asyncio.create_task(
            self._settle(execution, asyncio.CancelledError(), monotonic())
        )
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settle(
        self, execution: Execution, error: BaseException | None, started: float
    ) -> None:
        settled = Settled(Ending.LOST)
        try:
            settled = await self._settler.settle(execution, error)
        except Exception:  # noqa: BLE001 - logged with its traceback
            _LOG.exception("job %s: cannot write how it ended", execution.job.id)
        finally:
            self._end(execution, settled, started)

    def _completed(self, execution: Execution, started: float, is_ours: bool) -> None:
        ending = Ending.COMPLETED if is_ours else Ending.LOST
        self._end(execution, Settled(ending), started)

    def _end(self, execution: Execution, settled: Settled, started: float) -> None:
        self._unsettled -= 1
        self._on_end(execution, settled, monotonic() - started)


async def _swallow_cancellation(task: asyncio.Task[None]) -> None:
    """Let a cancellation that was meant for a handler end here, not in the next one."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    while task.cancelling():
        task.uncancel()
