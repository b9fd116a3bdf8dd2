"""How a claim ends: complete, cancel, retry, fail, snooze, release.

Every one matches id, token and running, and raises ClaimLost where no row comes back.
All work as a statement of their own (``conn`` in autocommit) and inside a transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

import psycopg
from psycopg import errors as pg
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from indexer.db.committed import rows_committed
from indexer.db.connection import Connection
from indexer.db.queries import Query, load
from indexer.errors import ClaimLost, DatabaseUnavailable
from indexer.jobs.errortext import UNRECORDABLE, clean
from indexer.jobs.history import ensure_history
from indexer.jobs.job import Json

_LOG = logging.getLogger(__name__)

_QUERIES = load("jobs")
_FINISH = _QUERIES["finish_job"]
_DROP_FINISHED = _QUERIES["drop_finished_job"]
_RETRY = _QUERIES["retry_job"]
_SNOOZE = _QUERIES["snooze_job"]
_RELEASE = _QUERIES["release_job"]
_RELEASE_STRAYS = _QUERIES["release_strays"]


async def complete(
    conn: Connection, *, job_id: int, token: UUID, result: Json | None = None
) -> None:
    """Move a finished job to history, in one statement.

    Where today's partition of the history is missing it is made; where it cannot be
    made the job is finished without a record, for its work is done. Neither breaks
    the transaction that ``conn`` may be in. Raises DatabaseUnavailable where another
    makes it in that very moment: done again it works.
    """
    await _finish(conn, job_id=job_id, token=token, status="done", result=result)


async def cancel_running(conn: Connection, *, job_id: int, token: UUID) -> None:
    """Move a running job that was told to end to history, as cancelled."""
    await _finish(conn, job_id=job_id, token=token, status="cancelled", result=None)


async def retry(
    conn: Connection, *, job_id: int, token: UUID, error: str, max_errors: int
) -> str:
    """Give a job back after an error; return its new status.

    It is pending again after min(3600, 30 · 2^min(n, 20) · (0.5 + random())) seconds,
    n its errors with this one: 30 to 90 s at first. The ``max_errors``-th error makes
    it failed. The text is cleaned, and recording it cannot fail.
    """
    return await _record(
        conn, _RETRY, job_id=job_id, token=token, error=error, max_errors=max_errors
    )


async def fail(conn: Connection, *, job_id: int, token: UUID, error: str) -> None:
    """Make a job failed at once: no retry would help it."""
    await _record(conn, _RETRY, job_id=job_id, token=token, error=error, max_errors=1)


async def snooze(
    conn: Connection,
    *,
    job_id: int,
    token: UUID,
    delay: timedelta,
    error: str | None = None,
) -> None:
    """Give a job back because something outside is down; it costs no attempt.

    ``error`` says what is down, for whoever looks at the waiting job.
    """
    await _record(conn, _SNOOZE, job_id=job_id, token=token, error=error, delay=delay)


async def release(conn: Connection, *, job_id: int, token: UUID) -> None:
    """Hand a job back untouched: due as before, no attempt spent, workers woken."""
    rows = await rows_committed(
        conn, _RELEASE, job_id=job_id, token=token, schema=conn.schema
    )
    if not rows:
        raise ClaimLost(job_id)


async def release_strays(
    conn: Connection, *, worker: str, known: Collection[int]
) -> int:
    """Hand back claims that the worker holds but does not know; return how many.

    Only the worker's own claim loop may call this, between two claims.
    """
    rows = await rows_committed(
        conn, _RELEASE_STRAYS, worker=worker, known=list(known), schema=conn.schema
    )
    return int(rows[0][0])


async def _finish(
    conn: Connection, *, job_id: int, token: UUID, status: str, result: Json | None
) -> None:
    for may_make in (True, False):
        try:
            rows = await rows_committed(
                conn,
                _FINISH,
                job_id=job_id,
                token=token,
                status=status,
                result=Jsonb(result) if result is not None else None,
                schema=conn.schema,
            )
        except pg.CheckViolation as error:
            # Somebody attached today's partition after this statement had looked for
            # the table's partitions, and before it asked whether there is one.
            raise DatabaseUnavailable(
                f"completing job {job_id}: today's history is just being made ({error})"
            ) from error
        has_home, is_finished = rows[0]
        if is_finished:
            return
        if has_home:
            raise ClaimLost(job_id)
        if may_make:
            await make_history(conn)
    if not await rows_committed(conn, _DROP_FINISHED, job_id=job_id, token=token):
        raise ClaimLost(job_id)
    _LOG.error(
        "job %s ended as %s but is in no history: the partition for today could not "
        "be made in schema %s",
        job_id,
        status,
        conn.schema,
    )


async def make_history(conn: Connection) -> None:
    """Make today's partition if it can be had soon; what breaks stays inside."""
    try:
        # In a transaction this is a savepoint, and only on this rare path.
        async with conn.transaction():
            await ensure_history(conn, ahead=0, tries=1)
    except (psycopg.Error, DatabaseUnavailable) as error:
        if conn.broken:
            raise
        _LOG.warning("cannot make the history partition for today: %s", error)


async def _try(conn: Connection, query: Query, **parameters: object) -> list[TupleRow]:
    if conn.info.transaction_status is TransactionStatus.IDLE:
        return await rows_committed(conn, query, **parameters)
    # A savepoint, so that a second try still has the caller's transaction.
    async with conn.transaction():
        return await query.rows(conn, **parameters)


async def _record(
    conn: Connection,
    query: Query,
    *,
    job_id: int,
    token: UUID,
    error: str | None,
    **parameters: object,
) -> str:
    rows: list[TupleRow] = []
    text = clean(error) if error is not None else None
    for attempt in (text, UNRECORDABLE):
        try:
            rows = await _try(
                conn, query, job_id=job_id, token=token, error=attempt, **parameters
            )
            break
        except (psycopg.DataError, pg.ProgramLimitExceeded, UnicodeError) as refused:
            if attempt == UNRECORDABLE:
                raise
            _LOG.error("cannot record the error of job %s: %s", job_id, refused)
    if not rows:
        raise ClaimLost(job_id)
    return str(rows[0][0])
