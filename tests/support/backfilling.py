"""A whole backfill within the test: plan, the real worker, and what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from indexer.chain.endpoints import Endpoints
from indexer.config import load_config
from indexer.db.connection import Database
from indexer.jobs.history import ensure_history
from indexer.jobs.worker import Worker
from indexer.ranges import BlockRange
from indexer.services.plan import plan
from indexer.services.work import make_worker
from tests.support.jobs import rows

# Faults must be got over by asking again, not by waiting for minutes.
_PATIENCE_SECONDS = 120.0


@dataclass
class Outcome:
    """What a backfill left: failed jobs with their errors, and those that are done."""

    failed: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    done: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    most_attempts: int = 0
    most_errors: int = 0

    @property
    def failed_heights(self) -> list[int]:
        """The heights of failed jobs that are about one block, in order."""
        for _, payload, _ in self.failed:
            assert payload["from"] == payload["to"]
        return sorted({payload["from"] for _, payload, _ in self.failed})


@asynccontextmanager
async def worker_of(
    database_url: str,
    urls: Sequence[str],
    heights: range,
    *,
    range_size: int = 1000,
    answer_within: float = 20.0,
    rps: float | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[Worker, Database, Endpoints]]:
    """Plan some heights and lend a worker for them, with what it works on."""
    config = load_config(
        database_url=database_url,
        rpc_url=tuple(urls),
        poll_interval="1s",
        **{"max_errors": 2, "concurrency": 4, **settings},
    )
    async with (
        Database(database_url, schema="indexer", size=8) as database,
        Endpoints.from_urls(urls, timeout=answer_within, rps=rps) as endpoints,
    ):
        async with database.connection() as conn:
            await ensure_history(conn)
        await plan(
            database,
            blocks=BlockRange(heights[0], heights[-1]),
            range_size=range_size,
        )
        yield await make_worker(config, database, endpoints), database, endpoints


async def backfill(
    database_url: str,
    urls: Sequence[str],
    heights: range,
    *,
    ready: Callable[[], None] = lambda: None,
    **settings: Any,
) -> Outcome:
    """Index some heights until nothing is left to run; backoffs are cut short.

    ``ready`` is called when the worker is about to begin.
    """
    async with worker_of(database_url, urls, heights, **settings) as lent:
        worker, database, _ = lent
        ready()
        hurry = asyncio.create_task(_hurry(database))
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await worker.run(drain=True)
        finally:
            hurry.cancel()
            await asyncio.gather(hurry, return_exceptions=True)
        return await outcome(database)


async def outcome(database: Database) -> Outcome:
    """Return what became of all jobs so far."""
    found = Outcome()
    for kind, payload, status, error, attempts, errors in await rows(
        database,
        "select kind, payload, status, last_error, attempts, errors "
        "from {s}.jobs_all order by id",
    ):
        if status == "failed":
            found.failed.append((kind, payload, error))
        else:
            found.done.append((kind, payload))
            assert status == "done", (kind, payload, status, error)
        found.most_attempts = max(found.most_attempts, attempts)
        found.most_errors = max(found.most_errors, errors)
    return found


async def _hurry(database: Database) -> None:
    """Let every backoff end, until cancelled."""
    while True:
        await rows(
            database,
            "update {s}.jobs set run_at = now() - interval '1 second' "
            "where status = 'pending' and run_at > now()",
        )
        await asyncio.sleep(0.2)
