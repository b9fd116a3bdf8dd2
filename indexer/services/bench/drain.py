"""A worker of the queue benchmark: a process that drains jobs which do nothing."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import timedelta

from indexer.db.connection import Database
from indexer.jobs.execution import Execution
from indexer.jobs.observer import NoObserver
from indexer.jobs.settings import WorkerSettings
from indexer.jobs.worker import Worker
from indexer.services.work import tune_collector

KIND = "noop"


@dataclass(frozen=True, kw_only=True)
class DrainSettings:
    """How a worker of the benchmark works; ``quick`` is with batches.

    ``claim_batch`` 1 is one job a statement.
    """

    url: str
    schema: str
    concurrency: int = 10
    claim_batch: int | None = None
    heartbeat: timedelta | None = None
    lease: timedelta = timedelta(seconds=60)
    quick: bool = False
    kind: str = KIND


@dataclass
class Drained:
    """What a worker saw: seconds of each claim that found something, and CPU time."""

    jobs: int = 0
    claims: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0


class _Claims(NoObserver):
    def __init__(self) -> None:
        self.seconds: list[float] = []

    def claimed(self, jobs: int, *, seconds: float) -> None:
        if jobs:
            self.seconds.append(seconds)


async def do_nothing(execution: Execution) -> None:
    """Be done at once."""


def bench_worker(
    database: Database, settings: DrainSettings, observer: NoObserver
) -> Worker:
    """Return a worker as the settings say."""
    return Worker(
        database,
        handlers={settings.kind: do_nothing},
        quick=[settings.kind] if settings.quick else [],
        settings=WorkerSettings(
            concurrency=settings.concurrency,
            claim_batch=settings.claim_batch,
            heartbeat=settings.heartbeat,
            lease=settings.lease,
        ),
        observer=observer,
    )


def drain(settings: DrainSettings) -> Drained:
    """Run one worker until nothing is left; to be called in a process of its own."""
    tune_collector()
    return asyncio.run(_drain(settings))


async def _drain(settings: DrainSettings) -> Drained:
    seen = _Claims()
    async with Database(
        settings.url,
        schema=settings.schema,
        size=max(4, settings.concurrency + 2),
        application="indexer bench worker",
    ) as database:
        worker = bench_worker(database, settings, seen)
        began = time.process_time()
        stats = await worker.run(drain=True)
        used = time.process_time() - began
    return Drained(jobs=stats.claimed, claims=seen.seconds, cpu_seconds=used)
