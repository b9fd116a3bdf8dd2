"""Two figures of the queue that need no load: waking up, and HOT heartbeats."""

from __future__ import annotations

import asyncio
from time import perf_counter

from indexer.db.connection import Database
from indexer.db.queries import load
from indexer.jobs.backlog import enqueue
from indexer.jobs.claims import claim
from indexer.jobs.execution import Execution
from indexer.jobs.settings import WorkerSettings
from indexer.jobs.worker import Worker
from indexer.services.bench.drain import KIND

_HEARTBEAT = load("jobs")["heartbeat_jobs"]
_VERSIONS = load("benchqueue")["row_versions"]

_SETTINGS = WorkerSettings()
# As many claims as ten workers of a hundred slots hold, for a quarter of an hour.
_CLAIMS = 1_000
_BEATS = 45
_REST_SECONDS = 0.03


async def wake_up_seconds(database: Database, *, count: int) -> list[float]:
    """Return how long after each commit of a job an idle worker started it."""
    started: asyncio.Queue[float] = asyncio.Queue()

    async def note(execution: Execution) -> None:
        started.put_nowait(perf_counter())

    worker = Worker(database, handlers={KIND: note}, settings=_SETTINGS)
    task = asyncio.create_task(worker.run())
    while not worker.is_listening:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(_REST_SECONDS)
    conn = await database.connect(application="indexer bench client")
    found = []
    try:
        async with conn:
            for _ in range(count):
                # Long enough to be idle again: after a job it looks once more.
                await asyncio.sleep(_REST_SECONDS)
                await enqueue(conn, kind=KIND, payloads=[{}])
                committed = perf_counter()
                found.append(max(0.0, await started.get() - committed))
    finally:
        worker.request_stop()
        await task
    return found


async def heartbeat_hot_share(database: Database) -> float:
    """Return which share of the heartbeats' row versions needed no index entry."""
    conn = await database.connect(application="indexer bench")
    async with conn:
        await enqueue(conn, kind=KIND, payloads=[{"n": n} for n in range(_CLAIMS)])
        jobs = await claim(
            conn,
            worker="bench",
            kinds=[KIND],
            limit=_CLAIMS,
            lease=_SETTINGS.lease,
            priority=10,
        )
    # The counts of a session are told when it ends.
    before = await _updates(database)
    conn = await database.connect(application="indexer bench")
    async with conn:
        for _ in range(_BEATS):
            await _HEARTBEAT.rows(
                conn,
                ids=[job.id for job in jobs],
                tokens=[job.claim_token for job in jobs],
                lease=_SETTINGS.lease,
            )
    after = await _updates(database)
    return (after[1] - before[1]) / max(1, after[0] - before[0])


async def _updates(database: Database) -> tuple[int, int]:
    async with database.connection() as conn:
        [(updated, hot, _, _)] = await _VERSIONS.rows(conn, schema=conn.schema)
    return updated, hot
