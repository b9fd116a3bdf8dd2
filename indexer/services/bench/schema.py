"""A schema of the benchmark's own, and what the server is set to."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from indexer.db.connection import Database, connect
from indexer.db.migrate import migrate
from indexer.db.queries import load

# Millions of rows are made, and written out, by one statement.
PATIENCE = timedelta(minutes=30)

_QUERIES = load("bench")
_DROP = _QUERIES["drop_bench_schema"]
_MAY_FLUSH = _QUERIES["may_flush"]
_FLUSH = _QUERIES["flush_to_disk"]
_SETTINGS = _QUERIES["server_settings"]


@asynccontextmanager
async def bench_schema(url: str) -> AsyncIterator[Database]:
    """Make a migrated schema, and drop it with all that came into it."""
    name = f"indexer_bench_{uuid.uuid4().hex[:12]}"
    await migrate(url, schema=name)
    try:
        async with Database(url, schema=name, application="indexer bench") as database:
            await flush_to_disk(database)
            yield database
    finally:
        conn = await connect(url, schema=name, application="indexer bench")
        async with conn:
            await _DROP.run(conn)


async def flush_to_disk(database: Database) -> None:
    """Leave the server nothing to write of what was, where our role may order it."""
    async with database.connection(reply_timeout=PATIENCE) as conn:
        row = await _MAY_FLUSH.row(conn)
        if row is not None and row[0]:
            await _FLUSH.run(conn)


async def server_settings(url: str) -> dict[str, str]:
    """Return what a rate depends on, to be printed beside it."""
    conn = await connect(url, schema="public", application="indexer bench")
    async with conn:
        return dict(await _SETTINGS.rows(conn))
