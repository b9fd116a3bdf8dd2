"""Put jobs by the million into the queue's tables, and make dead rows of them."""

from __future__ import annotations

from datetime import timedelta

from indexer.db.connection import Database
from indexer.db.queries import load
from indexer.services.bench.schema import PATIENCE

_QUERIES = load("benchqueue")
_FILL = _QUERIES["fill_pending"]
_FILL_HISTORY = _QUERIES["fill_history"]
_KILL = _QUERIES["kill_all"]
_TIDY = _QUERIES["tidy_jobs"]

# What a payload holds besides its padding.
_BARE_BYTES = len('{"n": 10000, "pad": ""}')


async def fill_pending(
    database: Database,
    kind: str,
    count: int,
    payload_bytes: int,
    *,
    age: timedelta = timedelta(hours=1),
) -> None:
    """Add jobs of a kind that have been due for ``age``: older ones stand in front."""
    pad = max(0, payload_bytes - _BARE_BYTES)
    async with database.connection(reply_timeout=PATIENCE) as conn:
        await _FILL.run(conn, kind=kind, count=count, pad=pad, age=age)


async def fill_history(database: Database, count: int) -> None:
    """Add jobs that were done today."""
    async with database.connection(reply_timeout=PATIENCE) as conn:
        await _FILL_HISTORY.run(conn, count=count)


async def kill_all(database: Database) -> None:
    """Leave nothing but dead rows behind."""
    async with database.connection(reply_timeout=PATIENCE) as conn:
        await _KILL.run(conn)


async def tidy(database: Database) -> None:
    """Begin with a clean table and true statistics."""
    async with database.connection(reply_timeout=PATIENCE) as conn:
        await _TIDY.run(conn)
