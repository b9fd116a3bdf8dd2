"""Claims: taking jobs, fencing what they write, and asking what became of them.

Whoever shows a job's id and claim token while it is running owns it; nothing here
compares the lease (only the reaper takes a job away).
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from typing import NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from indexer.db.committed import rows_committed
from indexer.db.connection import Connection
from indexer.db.queries import Query, load
from indexer.errors import ClaimLost
from indexer.jobs.endings import fail
from indexer.jobs.job import Job, Json

_LOG = logging.getLogger(__name__)

_QUERIES = load("jobs")
_CLAIM = _QUERIES["claim_jobs"]
# Planning takes as long as claiming this many; each is a statement of its own to
# prepare, of which a connection keeps a hundred.
_MOST_PLANNED = 16
_LANES = _QUERIES["pending_lanes"]
_FENCE = _QUERIES["fence_job"]
_RUNNING = _QUERIES["running_claim"]
_FINISHED = _QUERIES["finished_claim"]


class Lane(NamedTuple):
    """A priority that has pending jobs; the earliest is due in ``due_in``.

    ``seen_at`` is the database's time at which that was so, and ``table_bytes`` how
    large the table of all jobs was then.
    """

    priority: int
    due_in: timedelta
    seen_at: datetime
    table_bytes: int


class Mark(NamedTuple):
    """A place in the order of a lane."""

    run_at: datetime
    job_id: int


# Before every time that the table takes.
FRONT = Mark(datetime(1, 1, 1, tzinfo=UTC), 0)


class State(Enum):
    """What a claim has come to."""

    RUNNING = "running"
    FINISHED = "finished"
    LOST = "lost"


class Outcome(NamedTuple):
    """The answer of :func:`outcome`; ``progress`` is the last one committed."""

    state: State
    progress: Json | None


async def claim(
    conn: Connection,
    *,
    worker: str,
    kinds: Collection[str],
    limit: int,
    lease: timedelta,
    priority: int,
    deadline: timedelta | None = None,
    after: Mark = FRONT,
    magnitude: int | None = None,
) -> list[Job]:
    """Take up to ``limit`` due jobs of one lane, in order of ``run_at, id``.

    One statement, committed at once: ``conn`` is in autocommit. Only jobs behind
    ``after`` are looked at. A job whose payload or progress cannot be read is failed
    here and not returned; others come in its place. ``magnitude`` is that of the
    table, where it was just seen: then small claims are not planned each time.
    """
    rows = await rows_committed(
        conn,
        _claim_statement(limit, magnitude),
        worker=worker,
        kinds=list(kinds),
        limit=limit,
        lease=lease,
        priority=priority,
        deadline=deadline,
        after_run_at=after.run_at,
        after_id=after.job_id,
    )
    jobs = []
    for row in rows:
        try:
            jobs.append(Job.from_row(row))
        except ValueError as error:
            _LOG.error("job %s failed: %s", row[0], error)
            await fail(conn, job_id=row[0], token=row[3], error=str(error))
    unreadable = len(rows) - len(jobs)
    if unreadable:
        jobs += await claim(
            conn,
            worker=worker,
            kinds=kinds,
            limit=unreadable,
            lease=lease,
            priority=priority,
            deadline=deadline,
            after=after,
            magnitude=magnitude,
        )
    return jobs


@cache
def _planned_claim(limit: int, magnitude: int) -> Query:
    # A plan for an empty table would read all of it once there are a million jobs.
    return _CLAIM.fixed(f"of a table of 2^{magnitude} bytes", limit=limit)


def _claim_statement(limit: int, magnitude: int | None) -> Query:
    if magnitude is None or limit > _MOST_PLANNED:
        return _CLAIM
    return _planned_claim(limit, magnitude)


async def pending_lanes(conn: Connection) -> list[Lane]:
    """Return the priorities that have pending jobs, most urgent first."""
    rows = await rows_committed(conn, _LANES, schema=conn.schema)
    return [Lane(*row) for row in rows]


async def fence(
    conn: Connection,
    *,
    job_id: int,
    token: UUID,
    lease: timedelta,
    progress: Json | None = None,
) -> None:
    """Lock the job for this transaction, renew its lease and note its progress.

    The first statement of every transaction that writes for a job: the lock order is
    jobs before blocks. Raises ClaimLost, and then nothing may be written.
    """
    row = await _FENCE.row(
        conn,
        job_id=job_id,
        token=token,
        lease=lease,
        progress=Jsonb(progress) if progress is not None else None,
    )
    if row is None:
        raise ClaimLost(job_id)


async def outcome(conn: Connection, *, job_id: int, token: UUID) -> Outcome:
    """Tell what a claim has come to, after a connection was lost during COMMIT.

    ``conn`` is in a READ COMMITTED transaction: a commit still under way in the lost
    connection is waited for, at most for the transaction's lock timeout.
    """
    row = await _RUNNING.row(conn, job_id=job_id, token=token)
    if row is not None:
        return Outcome(State.RUNNING, row[0])
    row = await _FINISHED.row(conn, job_id=job_id, token=token)
    if row is not None:
        return Outcome(State.FINISHED, row[0])
    return Outcome(State.LOST, None)
