"""One measurement of one queue, as a program: ``rivals.py QUEUE MEASURE URL COUNT``.

It runs in an environment that has that queue, and prints one number: jobs a second, or
milliseconds. Each queue works as its makers say it is fast: theirs with ten jobs at a
time (procrastinate) and batches of a hundred (pgqueuer), ours with batches of its own.
"""

from __future__ import annotations

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from importlib import import_module
from statistics import median
from time import perf_counter
from typing import Any

CONCURRENCY = 10
DEAD = 200_000
_REST_SECONDS = 0.03
_SCHEMA = "indexer"

Started = Callable[[], None]


class Rival(ABC):
    """A queue under test: every method is about one database that is its alone."""

    def __init__(self, url: str, started: Started) -> None:
        self.url = url
        self.started = started

    @abstractmethod
    async def open(self) -> None:
        """Connect, and make the tables where they are not there."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect."""

    @abstractmethod
    async def enqueue(self, count: int) -> None:
        """Add jobs that do nothing, committed when this returns."""

    @abstractmethod
    async def run(self, *, drain: bool) -> None:
        """Work in this process; until nothing is left, or until cancelled."""

    @abstractmethod
    async def claim(self) -> None:
        """Claim one job, as a worker does."""

    @property
    @abstractmethod
    def ending(self) -> str:
        """The statement that ends every job at once, as a worker ends them."""


class Procrastinate(Rival):
    """procrastinate through psycopg."""

    ending = "update procrastinate_jobs set status = 'succeeded'"

    async def open(self) -> None:
        library: Any = import_module("procrastinate")
        self.app = library.App(
            connector=library.PsycopgConnector(
                conninfo=self.url, min_size=4, max_size=CONCURRENCY + 4
            )
        )

        async def noop(n: int) -> None:
            self.started()

        self.task = self.app.task(name="noop")(noop)
        await self.app.open_async()
        with suppress(Exception):
            await self.app.schema_manager.apply_schema_async()
        self.worker = await self.app.job_manager.register_worker()

    async def close(self) -> None:
        await self.app.close_async()

    async def enqueue(self, count: int) -> None:
        await self.task.batch_defer_async(*({"n": n} for n in range(count)))

    async def run(self, *, drain: bool) -> None:
        await self.app.run_worker_async(
            wait=not drain, concurrency=CONCURRENCY, install_signal_handlers=False
        )

    async def claim(self) -> None:
        job = await self.app.job_manager.fetch_job(queues=None, worker_id=self.worker)
        assert job is not None


class PgQueuer(Rival):
    """pgqueuer through asyncpg."""

    ending = "delete from pgqueuer"

    async def open(self) -> None:
        asyncpg: Any = import_module("asyncpg")
        db: Any = import_module("pgqueuer.db")
        self.connections = [await asyncpg.connect(self.url) for _ in range(2)]
        worker, client = (db.AsyncpgDriver(each) for each in self.connections)
        queries: Any = import_module("pgqueuer.queries")
        self.client = queries.Queries(client)
        if not await self.client.schema_is_installed():
            await self.client.install()
        self.parameter = queries.EntrypointExecutionParameter
        self.manager = import_module("pgqueuer.qm").QueueManager(
            queries.Queries(worker)
        )

        async def noop(job: Any) -> None:
            self.started()

        self.manager.entrypoint("noop")(noop)

    async def close(self) -> None:
        for each in self.connections:
            await each.close()

    async def enqueue(self, count: int) -> None:
        await self.client.enqueue(["noop"] * count, [b"{}"] * count, [0] * count)

    async def run(self, *, drain: bool) -> None:
        modes = import_module("pgqueuer.types").QueueExecutionMode
        await self.manager.run(
            batch_size=100, mode=modes.drain if drain else modes.continuous
        )

    async def claim(self) -> None:
        jobs = await self.client.dequeue(
            batch_size=1,
            entrypoints={"noop": self.parameter(0)},
            queue_manager_id=self.manager.queue_manager_id,
            global_concurrency_limit=None,
            heartbeat_timeout=timedelta(seconds=30),
        )
        assert len(jobs) == 1


class Ours(Rival):
    """This one, fenced, with heartbeats and history."""

    ending = f"delete from {_SCHEMA}.jobs"

    async def open(self) -> None:
        from indexer.db.connection import Database
        from indexer.db.migrate import migrate
        from indexer.jobs.claims import FRONT
        from indexer.jobs.history import ensure_history
        from indexer.services.work import tune_collector

        await migrate(self.url, schema=_SCHEMA)
        self.database = Database(self.url, schema=_SCHEMA, size=CONCURRENCY + 2)
        await self.database.open()
        self.client = await self.database.connect()
        await ensure_history(self.client)
        self.mark = FRONT
        tune_collector()

    async def close(self) -> None:
        await self.client.close()
        await self.database.close()

    async def enqueue(self, count: int) -> None:
        from indexer.jobs.backlog import enqueue

        payloads = [{"n": n} for n in range(count)]
        await enqueue(self.client, kind="noop", payloads=payloads)

    async def run(self, *, drain: bool) -> None:
        from indexer.jobs.execution import Execution
        from indexer.jobs.settings import WorkerSettings
        from indexer.jobs.worker import Worker

        async def noop(execution: Execution) -> None:
            self.started()

        worker = Worker(
            self.database,
            handlers={"noop": noop},
            quick=["noop"],
            settings=WorkerSettings(concurrency=CONCURRENCY),
        )
        await worker.run(drain=drain)

    async def claim(self) -> None:
        from indexer.jobs.claims import Mark, claim

        [job] = await claim(
            self.client,
            worker="one",
            kinds=["noop"],
            limit=1,
            lease=timedelta(seconds=60),
            priority=10,
            after=self.mark,
        )
        self.mark = Mark(job.run_at, job.id)


RIVALS: dict[str, type[Rival]] = {
    "procrastinate": Procrastinate,
    "pgqueuer": PgQueuer,
    "indexer": Ours,
}


async def drain(kind: type[Rival], url: str, count: int) -> float:
    """Return jobs a second, from the start of the worker to the last job's start."""
    last = 0.0
    done = 0

    def started() -> None:
        nonlocal last, done
        done += 1
        last = perf_counter()

    async with _opened(kind, url, started) as rival:
        await rival.enqueue(count)
        await _execute(url, "vacuum analyze")
        began = perf_counter()
        await rival.run(drain=True)
        ended = perf_counter()
    assert done == count, f"{done} of {count} jobs were run"
    return count / ((last if rival_waits(kind) else ended) - began)


def rival_waits(kind: type[Rival]) -> bool:
    """Tell whether its worker stays for a while when nothing is left."""
    return kind is not Procrastinate


async def latency(kind: type[Rival], url: str, count: int) -> float:
    """Return the median of milliseconds from a commit to the start of the job."""
    starts: asyncio.Queue[float] = asyncio.Queue()
    async with _opened(kind, url, lambda: starts.put_nowait(perf_counter())) as rival:
        task = asyncio.create_task(rival.run(drain=False))
        await asyncio.sleep(2.0)
        found = []
        for _ in range(count):
            await asyncio.sleep(_REST_SECONDS)
            await rival.enqueue(1)
            committed = perf_counter()
            found.append(max(0.0, await starts.get() - committed))
        task.cancel()
        with suppress(asyncio.CancelledError, TimeoutError):
            async with asyncio.timeout(10):
                await task
    return 1e3 * median(found)


async def old_snapshot(kind: type[Rival], url: str, count: int) -> float:
    """Return the median of milliseconds of a claim over rows that stay dead."""
    psycopg: Any = import_module("psycopg")
    async with _opened(kind, url, lambda: None) as rival:
        for _ in range(DEAD // 10_000):
            await rival.enqueue(10_000)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as old:
            await old.execute("begin isolation level repeatable read")
            await old.execute("select count(*) from pg_class")
            await _execute(url, rival.ending)
            await rival.enqueue(count + 1)
            await rival.claim()
            found = []
            for _ in range(count):
                began = perf_counter()
                await rival.claim()
                found.append(perf_counter() - began)
    return 1e3 * median(found)


@asynccontextmanager
async def _opened(
    kind: type[Rival], url: str, started: Started
) -> AsyncIterator[Rival]:
    rival = kind(url, started)
    await rival.open()
    try:
        yield rival
    finally:
        await rival.close()


async def _execute(url: str, statement: str) -> None:
    psycopg: Any = import_module("psycopg")
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        await conn.execute(statement)


MEASURES: dict[str, Callable[[type[Rival], str, int], Awaitable[float]]] = {
    "drain": drain,
    "latency": latency,
    "old-snapshot": old_snapshot,
}


def main() -> None:
    """Measure, and print the number."""
    queue, measure, url, count = sys.argv[1:]

    async def measured() -> float:
        return await MEASURES[measure](RIVALS[queue], url, int(count))

    sys.stdout.write(f"{asyncio.run(measured())}\n")


if __name__ == "__main__":
    main()
