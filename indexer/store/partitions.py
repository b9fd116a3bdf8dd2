"""Partitions of the chain tables, made ahead of time without stopping readers."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from psycopg import errors as pg

from indexer.db.connection import Connection, set_local_timeouts
from indexer.db.queries import load
from indexer.errors import DatabaseUnavailable, MigrationError
from indexer.ranges import BlockRange
from indexer.store.tables import ALL_TABLES, Table

HEIGHTS_PER_PARTITION = 1_000_000

# ATTACH waits behind whoever holds a conflicting lock, and everybody else then waits
# behind it; so it gives up soon and tries again.
_LOCK_TIMEOUT = timedelta(seconds=2)
_TRIES = 15

_QUERIES = load("partitions")
_LOCK = _QUERIES["lock_partitions"]
_ATTACHED = _QUERIES["attached_partitions"]
_CREATE = _QUERIES["create_partition"]
_ATTACH = _QUERIES["attach_partition"]


def partition_name(table: Table, index: int) -> str:
    """Return the name of the partition that begins at ``index`` million."""
    return f"{table.name}_p{index:06d}"


async def ensure_partitions(conn: Connection, blocks: BlockRange) -> list[str]:
    """Make every partition that the heights need; return the names of new ones.

    ``conn`` is in autocommit; each partition is a transaction of its own. Any number
    of processes may do this at once, beside readers and writers.

    Raises DatabaseUnavailable where a lock could not be had in many tries, and
    MigrationError where a table of a partition's name was detached.
    """
    wanted = range(
        blocks.first // HEIGHTS_PER_PARTITION, blocks.last // HEIGHTS_PER_PARTITION + 1
    )
    made = []
    for table in ALL_TABLES:
        present = await _present(conn, table)
        for index in wanted:
            name = partition_name(table, index)
            if name not in present and await _make(conn, table, index):
                made.append(name)
    return made


async def _present(conn: Connection, table: Table) -> set[str]:
    rows = await _ATTACHED.rows(conn, schema=conn.schema, parent=table.name)
    return {row[0] for row in rows}


async def _make(conn: Connection, table: Table, index: int) -> bool:
    for attempt in range(_TRIES):
        try:
            return await _make_once(conn, table, index)
        except (pg.LockNotAvailable, pg.DeadlockDetected):
            await asyncio.sleep(0.1 * (attempt + 1))
        except pg.DuplicateTable:
            raise _detached(conn, table, index) from None
    raise DatabaseUnavailable(
        f"could not attach {partition_name(table, index)}: another session holds a "
        f"conflicting lock on {conn.schema}.{table.name}; see pg_locks and try again"
    )


def _detached(conn: Connection, table: Table, index: int) -> MigrationError:
    """Return the error of a partition that somebody took out, and may still want."""
    name = f"{conn.schema}.{partition_name(table, index)}"
    first = index * HEIGHTS_PER_PARTITION
    return MigrationError(
        f"{name} is there, but is no partition of {conn.schema}.{table.name}: somebody "
        f"has detached it. Put it back with `alter table {conn.schema}.{table.name} "
        f"attach partition {name} for values from ({first}) to "
        f"({first + HEIGHTS_PER_PARTITION})`, or drop it and have its blocks fetched "
        "again"
    )


async def _make_once(conn: Connection, table: Table, index: int) -> bool:
    name = partition_name(table, index)
    first = index * HEIGHTS_PER_PARTITION
    parts: dict[str, str | int] = {
        "parent": table.name,
        "partition": name,
        "column": table.height_column,
        "first": first,
        "end": first + HEIGHTS_PER_PARTITION,
    }
    async with conn.transaction():
        await set_local_timeouts(conn, lock_timeout=_LOCK_TIMEOUT)
        await _LOCK.run(conn, schema=conn.schema)
        if name in await _present(conn, table):
            return False
        await _CREATE.define(conn, **parts)
        await _ATTACH.define(conn, **parts)
        return True
