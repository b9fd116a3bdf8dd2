"""The queue seen from outside: enqueue, count, list, retry, cancel."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import psycopg

from indexer.db.committed import rows_committed
from indexer.db.connection import Connection, set_local_timeouts
from indexer.db.queries import load
from indexer.errors import ConfigError
from indexer.jobs.claims import pending_lanes
from indexer.jobs.errortext import clean
from indexer.jobs.history import ensure_history
from indexer.jobs.payloads import check_kind, encode_payloads, is_too_deep

_QUERIES = load("backlog")
_ENQUEUE = _QUERIES["enqueue_jobs"]
_COUNT = _QUERIES["count_jobs"]
_COUNT_UNKNOWN = _QUERIES["count_unknown_kinds"]
_ANY_LEFT = _QUERIES["any_job_left"]
_LIST = _QUERIES["list_jobs"]
_RETRY = _QUERIES["retry_failed_jobs"]
_CANCEL_WAITING = _QUERIES["cancel_waiting_jobs"]
_REQUEST_CANCEL = _QUERIES["request_cancel"]

# Lanes: the tip stands before repair, repair before backfill (the table's default).
TIP, REPAIR, BACKFILL = 0, 5, 10


# A million jobs at once take a minute or so.
_BULK_TIMEOUT = timedelta(minutes=15)


class JobRecord(NamedTuple):
    """A job as ``jobs list`` shows it, waiting, running or finished.

    The field order is that of ``list_jobs``. ``status`` is pending, running or
    failed, or from history done or cancelled.
    """

    id: int
    kind: str
    payload: object
    status: str
    run_at: datetime
    attempts: int
    locked_by: str | None
    locked_until: datetime | None
    created_at: datetime
    priority: int
    errors: int
    lost_leases: int
    snoozes: int
    claimed_at: datetime | None
    finished_at: datetime | None
    progress: object
    result: object
    last_error: str | None


class JobFilter(NamedTuple):
    """Which jobs are meant: all that match everything that is given.

    ``error`` is a part of the last error's text, in any case.
    """

    ids: Sequence[int] | None = None
    kind: str | None = None
    status: str | None = None
    error: str | None = None

    def parameters(self) -> dict[str, object]:
        """Return the filter as the statements take it."""
        return {
            "ids": list(self.ids) if self.ids is not None else None,
            "kind": self.kind,
            "status": self.status,
            "error": clean(self.error) if self.error is not None else None,
        }


class Cancelled(NamedTuple):
    """How many jobs were ended, and how many running ones are told to end."""

    ended: int
    requested: int


async def enqueue(
    conn: Connection,
    *,
    kind: str,
    payloads: Sequence[Mapping[str, object]],
    priority: int = BACKFILL,
    run_after: timedelta | None = None,
) -> list[int]:
    """Add a job for each payload by one statement; return their ids in order.

    In the caller's transaction the jobs appear, and wake workers, when it commits.
    Raises ConfigError for a payload that cannot be stored, before anything is sent
    unless only the database's encoding is in the way.
    """
    check_kind(kind)
    if not payloads:
        return []
    try:
        rows = await rows_committed(
            conn,
            _ENQUEUE,
            kind=kind,
            payloads=encode_payloads(kind, payloads),
            priority=priority,
            run_after=run_after if run_after is not None else timedelta(0),
        )
    except psycopg.errors.UntranslatableCharacter as error:
        raise ConfigError(
            f"the {kind!r} jobs cannot be stored: the database's encoding has no place "
            f"for a character of theirs ({error}); create it with encoding UTF8"
        ) from error
    return [row[0] for row in rows]


async def count_jobs(conn: Connection) -> dict[tuple[str, str], int]:
    """Return how many jobs are in the queue by kind and status (not history)."""
    rows = await rows_committed(conn, _COUNT)
    return {(kind, status): count for kind, status, count in rows}


async def count_unknown_kinds(
    conn: Connection, *, kinds: Collection[str]
) -> dict[str, int]:
    """Return how many pending jobs there are of every kind not in ``kinds``."""
    rows = await rows_committed(conn, _COUNT_UNKNOWN, kinds=list(kinds))
    return {kind: count for kind, count in rows}


async def any_job_left(conn: Connection, *, kinds: Collection[str]) -> bool:
    """Tell whether a job of these kinds is pending, due or not, or running anywhere."""
    rows = await rows_committed(conn, _ANY_LEFT, kinds=list(kinds))
    return bool(rows[0][0])


async def oldest_pending_age(conn: Connection) -> timedelta | None:
    """Return for how long the oldest due job has been waiting; None where none is."""
    lanes = await pending_lanes(conn)
    late = [-lane.due_in for lane in lanes if lane.due_in <= timedelta(0)]
    return max(late, default=None)


async def list_jobs(
    conn: Connection, *, which: JobFilter, limit: int = 50
) -> list[JobRecord]:
    """Return the newest jobs that match, finished ones included."""
    rows = await rows_committed(conn, _LIST, limit=limit, **which.parameters())
    return [_read(JobRecord(*row)) for row in rows]


async def show_job(conn: Connection, *, job_id: int) -> JobRecord | None:
    """Return one job wherever it is, or None."""
    found = await list_jobs(conn, which=JobFilter(ids=[job_id]), limit=1)
    return found[0] if found else None


async def retry_failed(conn: Connection, *, which: JobFilter) -> int:
    """Make failed jobs pending again with fresh counters; return how many.

    Progress is kept: they go on where their last chunk was committed. Workers are
    woken. Jobs that are not failed are left alone, whatever the filter says.
    """
    parameters = {**which.parameters(), "schema": conn.schema}
    parameters.pop("status")
    rows = await rows_committed(conn, _RETRY, **parameters)
    return int(rows[0][0])


async def cancel(conn: Connection, *, which: JobFilter) -> Cancelled:
    """End jobs: waiting and failed ones at once, running ones by their worker.

    A running job is told by the reply to its worker's next heartbeat, and leaves for
    history as cancelled; what its chunks committed stays.
    """
    parameters = which.parameters()
    await ensure_history(conn)
    async with conn.transaction():
        await set_local_timeouts(conn, statement_timeout=_BULK_TIMEOUT)
        ended = await _CANCEL_WAITING.run(conn, **parameters)
    async with conn.transaction():
        await set_local_timeouts(conn, statement_timeout=_BULK_TIMEOUT)
        requested = await _REQUEST_CANCEL.run(conn, **parameters)
    return Cancelled(ended, requested)


def _read(found: JobRecord) -> JobRecord:
    return found._replace(
        payload=_readable(found.payload),
        progress=_readable(found.progress),
        result=_readable(found.result),
    )


def _readable(text: object) -> object:
    # Anybody may insert JSON that Python cannot read; it is shown all the same.
    if not isinstance(text, str) or is_too_deep(text):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
