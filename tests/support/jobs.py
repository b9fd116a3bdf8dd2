"""The queue in tests: databases, jobs, and times that are set instead of waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from time import monotonic
from typing import Any

from indexer.db.connection import Connection, Database
from indexer.jobs import claims
from indexer.jobs.backlog import JobRecord, enqueue, show_job
from indexer.jobs.history import ensure_history
from indexer.jobs.job import Job
from indexer.jobs.settings import WorkerSettings
from indexer.jobs.worker import Handler, Worker

LEASE = timedelta(seconds=60)
KIND = "test"

# Far longer than anything waited for takes, so that only a defect reaches it.
_PATIENCE_SECONDS = 60.0

# Of a pooler's URL the one to LISTEN on.
direct_urls: dict[str, str] = {}


@asynccontextmanager
async def queue(
    url: str, *, size: int = 8, schema: str = "indexer"
) -> AsyncIterator[Database]:
    """Open a migrated database whose history has its partitions."""
    async with Database(url, schema=schema, size=size) as database:
        async with database.connection() as conn:
            await ensure_history(conn)
        yield database


async def rows(
    database: Database, statement: str, *parameters: object
) -> list[tuple[Any, ...]]:
    """Execute a statement of the test's own; ``{s}`` is the schema."""
    async with database.connection() as conn:
        return await rows_on(conn, statement, *parameters)


async def rows_on(
    conn: Connection, statement: str, *parameters: object
) -> list[tuple[Any, ...]]:
    """Do the same on a given connection."""
    text = statement.replace("{s}", f'"{conn.schema}"')
    cursor = await conn.execute(text.encode(), parameters or None)
    return await cursor.fetchall() if cursor.description else []


async def add(database: Database, count: int = 1, **options: Any) -> list[int]:
    """Enqueue jobs with payloads ``{"n": 0}``, ``{"n": 1}``, …"""
    payloads = [{"n": number} for number in range(count)]
    async with database.connection() as conn:
        return await enqueue(conn, **{"kind": KIND, "payloads": payloads, **options})


async def claim(database: Database, limit: int = 1, **options: Any) -> list[Job]:
    """Claim jobs as ``tester``."""
    chosen = {
        "worker": "tester",
        "kinds": [KIND],
        "limit": limit,
        "lease": LEASE,
        "priority": 10,
        **options,
    }
    async with database.connection() as conn:
        return await claims.claim(conn, **chosen)


async def claim_one(database: Database, **options: Any) -> Job:
    """Claim the one job that is due."""
    [job] = await claim(database, **options)
    return job


async def expire(database: Database, *ids: int) -> None:
    """Let the leases of jobs end, as if the worker had been silent that long."""
    await rows(
        database,
        "update {s}.jobs set locked_until = now() - interval '1 second'"
        " where id = any(%s)",
        list(ids),
    )


async def make_due(database: Database) -> None:
    """Let every backoff end."""
    await rows(
        database,
        "update {s}.jobs set run_at = now() - interval '1 second'"
        " where status = 'pending' and run_at > now()",
    )


async def record(database: Database, job_id: int) -> JobRecord:
    """Return a job wherever it is."""
    async with database.connection() as conn:
        found = await show_job(conn, job_id=job_id)
    assert found is not None, f"there is no job {job_id}, nor is it in history"
    return found


async def until(
    condition: Callable[[], Awaitable[object]], what: str = "the condition"
) -> None:
    """Wait for a state; fail where it never comes."""
    end = monotonic() + _PATIENCE_SECONDS
    while not await condition():
        assert monotonic() < end, f"{what} never came"
        await asyncio.sleep(0.01)


def worker(
    database: Database, handler: Handler, *, name: str | None = None, **settings: Any
) -> Worker:
    """Return a worker for the tests' kind."""
    return Worker(
        database,
        handlers={KIND: handler},
        listen_url=direct_urls.get(database.url),
        settings=WorkerSettings(**settings),
        name=name,
    )


@asynccontextmanager
async def running(subject: Worker, **options: Any) -> AsyncIterator[Worker]:
    """Run a worker beside the test, and stop it at once at the end."""
    task = asyncio.create_task(subject.run(**options))
    try:
        yield subject
    finally:
        subject.request_stop()
        subject.request_stop()
        await task
