"""Planner statistics of partitioned tables, which nobody else keeps."""

from __future__ import annotations

import logging
from datetime import timedelta

from psycopg import errors as pg

from indexer.db.connection import Connection
from indexer.db.queries import load

_LOG = logging.getLogger(__name__)

_QUERIES = load("statistics")
_STALE = _QUERIES["stale_parents"]
_ANALYZE = _QUERIES["analyze_table"]

# Thousands of partitions take minutes; nobody waits for it but who asked.
_TIMEOUT = timedelta(minutes=30)


async def analyze_parents(conn: Connection, *, older_than: timedelta) -> list[str]:
    """Analyze partitioned tables with older statistics; return their names.

    ``conn`` is in autocommit. Whatever is locked or away is left for the next pass.
    """
    analyzed = []
    for (table,) in await _STALE.rows(conn, schema=conn.schema, age=older_than):
        conn.reply_timeout = _TIMEOUT.total_seconds()
        try:
            await _ANALYZE.define(conn, table=table)
        except (
            pg.LockNotAvailable,
            pg.DeadlockDetected,
            pg.UndefinedTable,
            pg.QueryCanceled,
        ) as error:
            _LOG.info("leaving %s for the next pass: %s", table, error)
            continue
        analyzed.append(table)
    return analyzed
