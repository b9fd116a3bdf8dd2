"""What makes each thing move that the queue and the database are watched for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from indexer.db.connection import Database
from indexer.jobs import endings
from indexer.jobs.reaper import reap
from indexer.jobs.settings import WorkerSettings
from indexer.jobs.worker import Worker
from indexer.metrics import Metrics
from indexer.services.telemetry import WorkerMetrics
from tests.support.jobs import (
    KIND,
    LEASE,
    add,
    claim,
    claim_one,
    expire,
    rows,
)
from tests.support.standby import Standby


async def _nothing(_execution: object) -> None:
    """Handle a job by doing nothing."""


@asynccontextmanager
async def waiting(database: Database, _metrics: Metrics) -> AsyncIterator[None]:
    """Five jobs have been due for a minute and a half."""
    await add(database, 5)
    await rows(database, "update {s}.jobs set run_at = now() - interval '90 seconds'")
    yield


@asynccontextmanager
async def held(database: Database, _metrics: Metrics) -> AsyncIterator[None]:
    """Two jobs run."""
    await add(database, 2)
    await claim(database, 2)
    yield


@asynccontextmanager
async def worked(database: Database, metrics: Metrics) -> AsyncIterator[None]:
    """A worker did one job, which took it twenty seconds by the database's clock."""
    await add(database, 1)

    async def slow(_execution: object) -> None:
        await rows(
            database, "update {s}.jobs set claimed_at = now() - interval '20 seconds'"
        )

    worker = Worker(
        database,
        handlers={KIND: slow},
        settings=WorkerSettings(),
        observer=WorkerMetrics(metrics),
    )
    await worker.run(drain=True)
    yield


@asynccontextmanager
async def claimed_over_dead_rows(
    database: Database, metrics: Metrics
) -> AsyncIterator[None]:
    """A worker claims behind what an old snapshot keeps of jobs that are done."""
    await add(database, 2000)
    async with asyncio.timeout(60):
        with psycopg.connect(database.url) as snapshot:
            snapshot.execute("set transaction isolation level repeatable read")
            snapshot.execute("select 1")
            await rows(database, "delete from {s}.jobs")
            async with worked(database, metrics):
                yield


@asynccontextmanager
async def erred(database: Database, _metrics: Metrics) -> AsyncIterator[None]:
    """A job met an error and waits for its next turn."""
    await _err(database, max_errors=5)
    yield


@asynccontextmanager
async def failed(database: Database, _metrics: Metrics) -> AsyncIterator[None]:
    """A job failed for good."""
    await _err(database, max_errors=1)
    yield


async def _err(database: Database, *, max_errors: int) -> None:
    await add(database, 1)
    job = await claim_one(database)
    async with database.connection() as conn:
        await endings.retry(
            conn,
            job_id=job.id,
            token=job.claim_token,
            error="no",
            max_errors=max_errors,
        )


@asynccontextmanager
async def lost(database: Database, _metrics: Metrics) -> AsyncIterator[None]:
    """A lease ended and was taken back."""
    await add(database, 1)
    job = await claim_one(database)
    await expire(database, job.id)
    async with database.connection() as conn:
        await reap(conn, lease=LEASE / 1e6, max_lost_leases=20)
    yield


@asynccontextmanager
async def updated(database: Database, _metrics: Metrics) -> AsyncIterator[None]:
    """Rows died after the last vacuum, too few for another."""
    await add(database, 500)
    await rows(database, "vacuum {s}.jobs")
    await rows(database, "update {s}.jobs set run_at = run_at + interval '1 second'")
    yield


@asynccontextmanager
async def autovacuumed(database: Database, _metrics: Metrics) -> AsyncIterator[None]:
    """So many rows died that autovacuum comes."""
    await add(database, 2000)
    await rows(database, "update {s}.jobs set run_at = run_at + interval '1 second'")
    yield


@asynccontextmanager
async def connected(database: Database, _metrics: Metrics) -> AsyncIterator[None]:
    """Somebody opened another connection."""
    with psycopg.connect(database.url):
        yield


@asynccontextmanager
async def written(database: Database, _metrics: Metrics) -> AsyncIterator[None]:
    """Something was written."""
    await rows(
        database, "select pg_logical_emit_message(true, 'x', repeat('y', 100000))"
    )
    yield


@asynccontextmanager
async def replicated(database: Database, _metrics: Metrics) -> AsyncIterator[None]:
    """A standby has got hardly anything."""
    with Standby(database.url, name="reporting") as standby:
        standby.replayed(1)
        yield


@asynccontextmanager
async def forgotten(database: Database, _metrics: Metrics) -> AsyncIterator[None]:
    """A session began a transaction, asked something, and went to lunch."""
    with psycopg.connect(database.url, application_name="lunch") as conn:
        conn.execute("set transaction isolation level repeatable read")
        conn.execute("select count(*) from indexer.blocks")
        yield
