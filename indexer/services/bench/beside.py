"""What others feel while the queue is busy: a client's latency, a replica's lag."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeVar

from indexer.db.connection import Database
from indexer.db.queries import load
from indexer.tasks import end_tasks

_Number = TypeVar("_Number", int, float)

_QUERIES = load("benchqueue")
_WORK = _QUERIES["work_of_another_client"]
_LAG = _QUERIES["replication_lag"]

# A client that does something twenty times a second is no load of its own.
_PAUSE_SECONDS = 0.05


@dataclass
class Beside:
    """Seconds of each of another client's transactions, and a replica's worst lag."""

    seconds: list[float] = field(default_factory=list)
    lag_bytes: int | None = None
    lag_seconds: float | None = None


@asynccontextmanager
async def watched(database: Database) -> AsyncIterator[Beside]:
    """Be another client for as long as the block lasts."""
    beside = Beside()
    task = asyncio.create_task(_watch(database, beside))
    try:
        yield beside
    finally:
        await end_tasks(task)


async def _watch(database: Database, beside: Beside) -> None:
    conn = await database.connect(application="indexer bench client")
    async with conn:
        while True:
            sent = perf_counter()
            await _WORK.run(conn)
            beside.seconds.append(perf_counter() - sent)
            [(lag_bytes, lag_seconds)] = await _LAG.rows(conn)
            beside.lag_bytes = _worse(beside.lag_bytes, lag_bytes)
            beside.lag_seconds = _worse(beside.lag_seconds, lag_seconds)
            await asyncio.sleep(_PAUSE_SECONDS)


def _worse(known: _Number | None, seen: _Number | None) -> _Number | None:
    if known is None or seen is None:
        return seen if known is None else known
    return max(known, seen)


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value that ``share`` of all are not above; None of nothing."""
    if not values:
        return None
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]
