"""Completions, collected: everything that ends while one is written goes with the next.

A single one is written at once, so collecting costs an idle worker nothing; a busy one
writes a thousand with one statement and one commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import NamedTuple
from uuid import UUID

import psycopg
from psycopg import errors as pg

from indexer.db.connection import Connection, Database
from indexer.db.failures import is_retryable
from indexer.db.queries import load
from indexer.errors import ClaimLost
from indexer.jobs.claims import State, outcome
from indexer.jobs.endings import complete, make_history
from indexer.jobs.patience import until_answered

_LOG = logging.getLogger(__name__)

_QUERIES = load("jobs")
_FINISH = _QUERIES["finish_jobs"]
_RUNNING = _QUERIES["running_claims"]
_FINISHED = _QUERIES["finished_claims"]

# About 20 ms of PostgreSQL's time and 1 MB of WAL.
LARGEST = 1000
# A row that somebody else keeps locked must not hold up all the others.
_LOCK_TIMEOUT = timedelta(seconds=1)


class _Stuck(Exception):
    """A batch cannot be written as one."""


class Completion(NamedTuple):
    """A claim whose work is done; ``told`` learns whether it was still ours."""

    job_id: int
    token: UUID
    told: Callable[[bool], None]


class Completions:
    """Writes completions, as many at a time as have come together."""

    def __init__(
        self, database: Database, *, random: Random, largest: int = LARGEST
    ) -> None:
        self._database = database
        self._random = random
        self._largest = largest
        self._waiting: list[Completion] = []
        self._flush: asyncio.Task[None] | None = None
        self._singles: set[asyncio.Task[None]] = set()

    def add(self, completion: Completion) -> None:
        """Write a completion soon: in one statement with those that wait already."""
        self._waiting.append(completion)
        if self._flush is None:
            self._flush = asyncio.create_task(self._write_all())

    async def complete(self, job_id: int, token: UUID) -> None:
        """Write a completion with the next ones; raise ClaimLost if it is not ours."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def told(is_ours: bool) -> None:
            if not answer.done():
                answer.set_result(is_ours)

        self.add(Completion(job_id, token, told))
        if not await answer:
            raise ClaimLost(job_id)

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[: self._largest]
                del self._waiting[: self._largest]
                if len(batch) == 1:
                    single = self._start_single(batch[0])
                    await asyncio.wait({single}, timeout=_LOCK_TIMEOUT.total_seconds())
                else:
                    await self._write_batch(batch)
        finally:
            self._flush = None

    async def _write_batch(self, batch: list[Completion]) -> None:
        try:
            finished = await until_answered(
                f"completing {len(batch)} jobs",
                _Batch(self._database, batch).write,
                random=self._random,
            )
        except Exception as error:  # noqa: BLE001 - each says for itself what is wrong
            # One that cannot be written, or not now, must not take the others along.
            _LOG.info("completing %s jobs one by one: %s", len(batch), error)
            for each in batch:
                self._start_single(each)
        else:
            for each in batch:
                each.told(each.job_id in finished)

    def _start_single(self, completion: Completion) -> asyncio.Task[None]:
        task = asyncio.create_task(self._write_single(completion))
        self._singles.add(task)
        task.add_done_callback(self._singles.discard)
        return task

    async def _write_single(self, completion: Completion) -> None:
        is_ours = False
        try:
            await complete_patiently(
                self._database,
                job_id=completion.job_id,
                token=completion.token,
                random=self._random,
            )
            is_ours = True
        except ClaimLost:
            pass
        except Exception:  # noqa: BLE001 - logged with its traceback
            _LOG.exception("job %s: cannot write its completion", completion.job_id)
        completion.told(is_ours)


class _Batch:
    """One batch on its way; a try without an answer is looked up before the next."""

    def __init__(self, database: Database, batch: Sequence[Completion]) -> None:
        self._database = database
        self._left = {each.job_id: each.token for each in batch}
        self._finished: set[int] = set()
        self._is_tried = False

    async def write(self) -> set[int]:
        """Do one try; return the ids of all that are finished now."""
        if self._is_tried:
            await self._look_up()
        self._is_tried = True
        if self._left:
            self._finished |= await self._try()
        return self._finished

    async def _try(self) -> set[int]:
        async with self._database.transaction(lock_timeout=_LOCK_TIMEOUT) as conn:
            for may_make in (True, False):
                has_home, finished = await self._finish(conn)
                if has_home:
                    return finished
                if may_make:
                    await make_history(conn)
            return await self._finish_without_history(conn)

    async def _finish(self, conn: Connection) -> tuple[bool, set[int]]:
        try:
            rows = await _FINISH.rows(conn, schema=conn.schema, **self._parameters())
        except psycopg.Error as error:
            if isinstance(error, pg.LockNotAvailable) or not is_retryable(error):
                raise _Stuck(str(error).strip()) from error
            raise
        return rows[0][0], set(rows[0][1])

    async def _finish_without_history(self, conn: Connection) -> set[int]:
        finished = set()
        for job_id, token in sorted(self._left.items()):
            try:
                await complete(conn, job_id=job_id, token=token)
            except ClaimLost:
                continue
            finished.add(job_id)
        return finished

    async def _look_up(self) -> None:
        async with self._database.transaction() as conn:
            running = await _RUNNING.rows(conn, **self._parameters())
            ended = await _FINISHED.rows(conn, **self._parameters())
        self._finished |= {row[0] for row in ended}
        self._left = {row[0]: self._left[row[0]] for row in running}

    def _parameters(self) -> dict[str, object]:
        return {"ids": list(self._left), "tokens": list(self._left.values())}


async def complete_patiently(
    database: Database, *, job_id: int, token: UUID, random: Random
) -> None:
    """Complete one job, for as long as the database takes to answer.

    Raises ClaimLost.
    """
    is_first = True

    async def once() -> None:
        nonlocal is_first
        if not is_first and await _is_finished(database, job_id, token):
            return
        is_first = False
        async with database.connection() as conn:
            await complete(conn, job_id=job_id, token=token)

    await until_answered(f"completing job {job_id}", once, random=random)


async def _is_finished(database: Database, job_id: int, token: UUID) -> bool:
    """Tell whether a completion whose answer was lost is in the tables."""
    async with database.transaction() as conn:
        found = await outcome(conn, job_id=job_id, token=token)
    if found.state is State.LOST:
        raise ClaimLost(job_id)
    return found.state is State.FINISHED
