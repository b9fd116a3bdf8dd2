"""How an execution that has ended is written down."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import NamedTuple

from indexer.backoff import delay_seconds
from indexer.db.connection import Database
from indexer.errors import ClaimLost, JobRefused, MigrationError, TransientError
from indexer.jobs.completions import Completions, complete_patiently
from indexer.jobs.endings import (
    cancel_running,
    fail,
    release,
    retry,
    snooze,
)
from indexer.jobs.errortext import clean, describe
from indexer.jobs.execution import Execution, Interruption
from indexer.jobs.observer import Ending
from indexer.jobs.patience import until_answered

_LOG = logging.getLogger(__name__)

# A node or database that is down for a moment delays a job by seconds; one that is
# down for an hour is asked once a minute by each job.
_SNOOZE_BASE_SECONDS = 1.0
_SNOOZE_CAP_SECONDS = 60.0
# A node that asks for more than this is asked again all the same.
_LONGEST_RETRY_AFTER_SECONDS = 3600.0


class Settled(NamedTuple):
    """How an execution ended; ``reason`` is an exception's type, or empty."""

    ending: Ending
    reason: str = ""


class Settler:
    """Writes endings down, for as long as the database takes to answer."""

    def __init__(
        self,
        database: Database,
        *,
        max_errors: int,
        completions: Completions | None = None,
        random: Random | None = None,
    ) -> None:
        """``completions`` None: each completion is a statement of its own."""
        self._database = database
        self._max_errors = max_errors
        self._completions = completions
        self._random = random if random is not None else Random()

    async def settle(
        self, execution: Execution, error: BaseException | None
    ) -> Settled:
        """Complete the job or give it back, by what its handler raised.

        A handler that returned has done its work, whatever it was told meanwhile; one
        that does not stop when told to counts as cancelled.
        """
        if execution.is_finished:
            return Settled(Ending.COMPLETED)
        try:
            if error is None:
                await self._complete(execution)
                return Settled(Ending.COMPLETED)
            if execution.interruption is not None:
                return await self._interrupted(execution, execution.interruption)
            return await self._erred(execution, error)
        except ClaimLost:
            return Settled(Ending.LOST)

    async def _interrupted(self, execution: Execution, why: Interruption) -> Settled:
        job = execution.job
        if why is Interruption.LOST:
            return Settled(Ending.LOST)
        if why is Interruption.CANCELLED:
            await self._write(execution, cancel_running)
            return Settled(Ending.CANCELLED)
        if why is Interruption.SHUTDOWN:
            await self._write(execution, release)
            return Settled(Ending.RELEASED)
        allowed = (job.deadline_at or job.claimed_at) - job.claimed_at
        return await self._retry(
            execution, f"it ran longer than its deadline of {allowed}", "deadline"
        )

    async def _erred(self, execution: Execution, error: BaseException) -> Settled:
        if isinstance(error, ClaimLost):
            return Settled(Ending.LOST)
        reason = type(error).__name__
        # A schema that is being changed, or a right that is missing, is no fault of
        # the job's: it waits for whoever mends it, or for another program's worker.
        if isinstance(error, TransientError | MigrationError):
            return await self._snooze(execution, error)
        if isinstance(error, JobRefused):
            text = describe(error)
            await self._write(execution, fail, error=text)
            _LOG.error("job %s failed: %s", execution.job.id, clean(text))
            return Settled(Ending.FAILED, reason)
        _LOG.debug("job %s: handler failed", execution.job.id, exc_info=error)
        return await self._retry(execution, describe(error), reason)

    async def _snooze(self, execution: Execution, error: Exception) -> Settled:
        delay = self._snooze_delay(execution.job.snoozes, error)
        text = describe(error)
        await self._write(execution, snooze, delay=delay, error=text)
        _LOG.warning(
            "job %s waits %.1f s: %s",
            execution.job.id,
            delay.total_seconds(),
            clean(text),
        )
        return Settled(Ending.SNOOZED, type(error).__name__)

    async def _retry(self, execution: Execution, text: str, reason: str) -> Settled:
        status = await self._write(
            execution, retry, error=text, max_errors=self._max_errors
        )
        failed = status == "failed"
        _LOG.log(
            logging.ERROR if failed else logging.WARNING,
            "job %s (%s) error %s of %s: %s",
            execution.job.id,
            execution.job.kind,
            execution.job.errors + 1,
            self._max_errors,
            clean(text),
        )
        return Settled(Ending.FAILED if failed else Ending.RETRIED, reason)

    async def _write(
        self,
        execution: Execution,
        write: Callable[..., Awaitable[str | None]],
        **parameters: object,
    ) -> str | None:
        async def once() -> str | None:
            async with self._database.connection() as conn:
                return await write(
                    conn,
                    job_id=execution.job.id,
                    token=execution.token,
                    **parameters,
                )

        doing = f"writing down how job {execution.job.id} ended"
        return await until_answered(doing, once, random=self._random)

    async def _complete(self, execution: Execution) -> None:
        job_id, token = execution.job.id, execution.token
        if self._completions is not None:
            await self._completions.complete(job_id, token)
        else:
            await complete_patiently(
                self._database, job_id=job_id, token=token, random=self._random
            )

    def _snooze_delay(self, snoozes: int, error: Exception) -> timedelta:
        delay = delay_seconds(
            snoozes,
            base=_SNOOZE_BASE_SECONDS,
            cap=_SNOOZE_CAP_SECONDS,
            random=self._random,
        )
        asked: float | None = getattr(error, "retry_after", None)
        if asked is not None and asked > delay:
            # Only ever later than asked for, and not everybody at once.
            delay = min(asked, _LONGEST_RETRY_AFTER_SECONDS)
            delay *= 1 + 0.25 * self._random.random()
        return timedelta(seconds=delay)
