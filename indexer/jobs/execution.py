"""What a handler holds: its job, and transactions fenced by the job's token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from enum import Enum
from random import Random
from time import monotonic
from typing import TypeAlias
from uuid import UUID

from indexer.db.connection import IDLE_TIMEOUT, Connection, Database
from indexer.errors import ClaimLost, DatabaseUnavailable
from indexer.jobs.claims import Outcome, State, fence, outcome
from indexer.jobs.endings import complete
from indexer.jobs.job import Job, Json
from indexer.jobs.patience import until_answered

_Closing: TypeAlias = Callable[[Connection], Awaitable[None]]

# A process that is stopped in a chunk holds its job's row, so that the reaper steps
# past it: its transaction must end well within the lease.
_SHORTEST_IDLE = timedelta(seconds=1)

# A handler that was told to stop and has not after this long is left behind: its
# token is given away, so whatever it does later writes nothing.
STUBBORN_SECONDS = 10.0


class Interruption(Enum):
    """Why an execution is told to stop before its handler returns."""

    LOST = "lost"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    SHUTDOWN = "shutdown"


class Execution:
    """One claim of one job, while its handler runs.

    A handler fetches outside any transaction, writes inside :meth:`chunk`, ends with
    :meth:`finish` (or just returns), and calls :meth:`check` where it does nothing of
    these for long. It is cancelled when it has to stop; never inside a transaction,
    so that a commit under way is not torn.
    """

    def __init__(
        self,
        job: Job,
        *,
        database: Database,
        lease: timedelta,
        renewed: Callable[[int, UUID, float], None] | None = None,
        random: Random | None = None,
    ) -> None:
        """``renewed`` is told of each fence: job id, token, monotonic time sent."""
        self.job = job
        self.progress = job.progress
        self.result: Json | None = None
        self.is_finished = False
        self.interruption: Interruption | None = None
        self._database = database
        self._lease = lease
        self._tell_renewed = renewed
        self._random = random if random is not None else Random()
        self._task: asyncio.Task[None] | None = None
        self._in_transaction = 0
        self._is_suspect = False
        self._is_asking = False
        self.given_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def token(self) -> UUID:
        """The token of this claim."""
        return self.job.claim_token

    @property
    def is_suspect(self) -> bool:
        """Whether the lease is over by our own clock, with no word from the database.

        It may still be ours: :meth:`check` waits for the answer, and so does a chunk.
        """
        return self._is_suspect

    def attach(self, task: asyncio.Task[None]) -> None:
        """Name the handler's task, which an interruption cancels."""
        self._task = task
        self._deliver()

    def suspect(self) -> None:
        """Make the next :meth:`check` ask before the work goes on."""
        self._is_suspect = True

    def interrupt(self, why: Interruption) -> None:
        """Stop the handler at its next await that is not in a transaction.

        While it is in one, news of a lost claim is left aside: it may be older than
        the fence, and the database decides there. So it is while a COMMIT's outcome
        is asked for: a claim that has completed is not there any more either.
        """
        if self.is_finished or self.interruption is not None:
            return
        if why is Interruption.LOST and (self._in_transaction or self._is_asking):
            return
        self.interruption = why
        self._deliver()
        asyncio.get_running_loop().call_later(STUBBORN_SECONDS, self._give_up)

    async def check(self) -> None:
        """Raise ClaimLost where this execution must not go on.

        A suspect claim is asked for until the database answers, and renewed.
        """
        if self.interruption is not None or self.is_finished:
            raise ClaimLost(self.job.id)
        if self._is_suspect:
            await until_answered(
                f"asking for the claim on job {self.job.id}",
                self._renew,
                random=self._random,
            )

    @asynccontextmanager
    async def chunk(self, *, progress: Json | None = None) -> AsyncIterator[Connection]:
        """Lend a transaction that writes one chunk: all of it, or none if not ours.

        ``progress`` commits with it; the next claim of the job finds it in
        ``job.progress``. Raises ClaimLost, and DatabaseUnavailable where the chunk
        was not committed.
        """
        async with self._fenced(progress) as conn:
            yield conn

    @asynccontextmanager
    async def finish(self, *, result: Json | None = None) -> AsyncIterator[Connection]:
        """Lend the last transaction: the caller's writes and the completion in one.

        Jobs that this one gives rise to are enqueued on the same connection.
        """

        async def closing(conn: Connection) -> None:
            await complete(conn, job_id=self.job.id, token=self.token, result=result)

        async with self._fenced(None, closing) as conn:
            yield conn
        self.result = result
        self.is_finished = True

    async def _renew(self) -> None:
        async with self._fenced(None):
            pass

    @asynccontextmanager
    async def _fenced(
        self, progress: Json | None, closing: _Closing | None = None
    ) -> AsyncIterator[Connection]:
        if self.interruption is not None or self.is_finished:
            raise ClaimLost(self.job.id)
        self._in_transaction += 1
        is_committing = False
        unanswered: DatabaseUnavailable | None = None
        sent_at = monotonic()
        try:
            idle = min(IDLE_TIMEOUT, max(_SHORTEST_IDLE, self._lease / 2))
            async with self._database.transaction(idle_timeout=idle) as conn:
                await fence(
                    conn,
                    job_id=self.job.id,
                    token=self.token,
                    lease=self._lease,
                    progress=progress,
                )
                yield conn
                if closing is not None:
                    await closing(conn)
                is_committing = True
        except DatabaseUnavailable as error:
            if not is_committing:
                raise
            unanswered = error
        finally:
            self._is_asking = unanswered is not None
            self._in_transaction -= 1
            if closing is None:
                self._deliver()
        if unanswered:
            await self._settle_doubt(unanswered, progress, closing)
        self._is_suspect = False
        if progress is not None:
            self.progress = progress
        if self._tell_renewed is not None:
            self._tell_renewed(self.job.id, self.token, sent_at)

    async def _settle_doubt(
        self,
        unanswered: DatabaseUnavailable,
        progress: Json | None,
        closing: _Closing | None,
    ) -> None:
        try:
            if not await self._is_committed(progress, closing):
                raise unanswered
        finally:
            self._is_asking = False

    async def _is_committed(
        self, progress: Json | None, closing: _Closing | None
    ) -> bool:
        """Tell whether a transaction whose COMMIT got no answer is in the tables."""
        found = await until_answered(
            f"asking what became of job {self.job.id}",
            self._outcome,
            random=self._random,
        )
        if found.state is State.LOST:
            raise ClaimLost(self.job.id)
        if closing is not None:
            return found.state is State.FINISHED
        # Without a progress of its own a chunk cannot be told apart, and is repeated:
        # that is harmless, a chunk left out is not.
        return (
            progress is not None
            and found.progress == _as_stored(progress)
            and found.progress != self.progress
        )

    async def _outcome(self) -> Outcome:
        async with self._database.transaction() as conn:
            return await outcome(conn, job_id=self.job.id, token=self.token)

    def _give_up(self) -> None:
        if not self.given_up.done():
            self.given_up.set_result(None)

    def _deliver(self) -> None:
        if (
            self.interruption is not None
            and not self._in_transaction
            and self._task is not None
        ):
            self._task.cancel()


def _as_stored(progress: Json) -> Json:
    stored: Json = json.loads(json.dumps(progress))
    return stored
