"""Finished jobs: a partition for each UTC day, made ahead and dropped when old.

Jobs that failed stay in the queue until they are retried, or as old as that.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import NamedTuple

from psycopg import errors as pg

from indexer.db.committed import rows_committed
from indexer.db.connection import Connection, set_local_timeouts
from indexer.db.queries import load

_LOG = logging.getLogger(__name__)

DAYS_AHEAD = 3
_DAY_SECONDS = 86_400

# Whoever waits for a lock on the parent stands in front of everybody behind him.
_LOCK_TIMEOUT = timedelta(seconds=2)
_TRIES = 5

# DETACH CONCURRENTLY waits for every transaction that looks at the table. One that is
# given up is finished by the next pass, which costs nobody anything.
_DETACH_TIMEOUT = timedelta(seconds=60)

_QUERIES = load("history")
_LOCK = _QUERIES["lock_history"]
_DAYS = _QUERIES["history_days"]
_PARTITIONS = _QUERIES["history_partitions"]
_CREATE = _QUERIES["create_history_day"]
_ATTACH = _QUERIES["attach_history_day"]
_DETACH = _QUERIES["detach_history_day"]
_FINALIZE = _QUERIES["finalize_history_day"]
_DROP = _QUERIES["drop_history_day"]
_AGE_OUT = _QUERIES["age_out_failed_jobs"]

# As the reaper's: small enough that claims and completions get their turn in between.
_AGED_BATCH = 500


class _Partition(NamedTuple):
    name: str
    is_attached: bool
    is_detaching: bool
    is_old: bool


async def ensure_history(
    conn: Connection, *, ahead: int = DAYS_AHEAD, tries: int = _TRIES
) -> list[str]:
    """Make the partitions of today and ``ahead`` days more; return the new names.

    Each is a transaction of its own (a savepoint inside one), and a lock that is not
    to be had is waited for ``tries`` times two seconds. Readers and completions go
    on; any number of workers may do this at once.

    Raises psycopg's LockNotAvailable where a lock could not be had in several tries.
    """
    days = await _DAYS.rows(conn, ahead=ahead)
    present = {each.name for each in await _partitions(conn) if each.is_attached}
    made = []
    for day, start in days:
        name = f"jobs_history_{day}"
        if name not in present and await _make(conn, name, start, tries):
            made.append(name)
    return made


async def drop_old(conn: Connection, *, retention: timedelta) -> list[str]:
    """Drop the days that are older than ``retention``; return their names.

    ``conn`` is in autocommit. Each is detached concurrently, so that no reader waits,
    and dropped once it stands alone; a detach that was interrupted is finished first.
    What cannot be had now is left for the next pass. An old day that was detached by
    hand goes too, unless it is renamed.
    """
    dropped = []
    for each in await _partitions(conn, retention=retention):
        if not each.is_old:
            continue
        conn.reply_timeout = _DETACH_TIMEOUT.total_seconds() + 5
        try:
            async with asyncio.timeout(_DETACH_TIMEOUT.total_seconds()):
                await _drop(conn, each)
        except (
            TimeoutError,
            pg.ObjectNotInPrerequisiteState,
            pg.UndefinedTable,
            pg.LockNotAvailable,
            pg.DeadlockDetected,
            pg.QueryCanceled,
        ) as error:
            # Another worker was faster, or somebody holds the table for long.
            _LOG.info("leaving %s for the next pass: %s", each.name, error)
            if conn.closed:
                break
            continue
        dropped.append(each.name)
    return dropped


async def age_out_failed(
    conn: Connection, *, retention: timedelta, batch: int = _AGED_BATCH
) -> int:
    """Move failed jobs that nobody retried for so long to history; return how many.

    ``conn`` is in autocommit, and today's partition is there (:func:`ensure_history`).
    """
    aged = 0
    while True:
        moved = await rows_committed(conn, _AGE_OUT, retention=retention, batch=batch)
        aged += len(moved)
        if len(moved) < batch:
            return aged


async def _drop(conn: Connection, partition: _Partition) -> None:
    if partition.is_detaching:
        await _FINALIZE.define(conn, partition=partition.name)
    elif partition.is_attached:
        await _DETACH.define(conn, partition=partition.name)
    async with conn.transaction():
        await set_local_timeouts(conn, lock_timeout=_LOCK_TIMEOUT)
        await _DROP.define(conn, partition=partition.name)


async def _partitions(
    conn: Connection, *, retention: timedelta = timedelta(0)
) -> list[_Partition]:
    rows = await _PARTITIONS.rows(conn, schema=conn.schema, retention=retention)
    return [_Partition(*row) for row in rows]


async def _make(conn: Connection, name: str, start: int, tries: int) -> bool:
    for attempt in range(1, tries + 1):
        try:
            return await _make_once(conn, name, start)
        except (pg.LockNotAvailable, pg.DeadlockDetected):
            if attempt == tries:
                raise
            await asyncio.sleep(0.05 * attempt)
    return False


async def _make_once(conn: Connection, name: str, start: int) -> bool:
    parts: dict[str, str | int] = {
        "partition": name,
        "first": start,
        "end": start + _DAY_SECONDS,
    }
    async with conn.transaction():
        await set_local_timeouts(conn, lock_timeout=_LOCK_TIMEOUT)
        await _LOCK.run(conn, schema=conn.schema)
        tables = {each.name: each.is_attached for each in await _partitions(conn)}
        if tables.get(name):
            return False
        # One that was detached by hand comes back with what it holds.
        if name not in tables:
            await _CREATE.define(conn, **parts)
        await _ATTACH.define(conn, **parts)
        return True
