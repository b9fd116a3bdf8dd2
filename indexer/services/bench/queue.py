"""The cases of ``indexer bench queue``: jobs that do nothing, and what they cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from multiprocessing import get_context
from typing import Any, NamedTuple

from indexer.db.connection import Database, connect
from indexer.db.queries import load
from indexer.jobs.history import ensure_history
from indexer.services.bench.beside import percentile, watched
from indexer.services.bench.drain import KIND, Drained, DrainSettings, drain
from indexer.services.bench.filling import (
    fill_history,
    fill_pending,
    kill_all,
    tidy,
)
from indexer.services.bench.latency import heartbeat_hot_share, wake_up_seconds
from indexer.services.bench.processes import BenchmarkFailed
from indexer.services.bench.schema import (
    PATIENCE,
    bench_schema,
    flush_to_disk,
    server_settings,
)

_QUERIES = load("benchqueue")
_SNAPSHOT = _QUERIES["take_snapshot"]
_DRAINED = _QUERIES["drained"]
_WAL = _QUERIES["wal_position"]
_VERSIONS = _QUERIES["row_versions"]

Say = Callable[[str], None]

# What a claim's latency is measured with; its rate is not what counts there.
_CLAIMED_JOBS = 6_000
_WAKE_UPS = 300


class QueueCase(NamedTuple):
    """A case: ``load`` is what lies in the table before the jobs that are measured."""

    name: str
    load: str = ""
    quick: bool = False
    claim_batch: int | None = None


CASES = (
    QueueCase("batches", quick=True),
    QueueCase("ordinary"),
    QueueCase("one by one", claim_batch=1),
    QueueCase("claims, fresh", load="fresh"),
    QueueCase("claims, old snapshot", load="snapshot"),
    QueueCase("claims, foreign kind in front", load="foreign"),
)
# These take minutes and gigabytes.
LARGE_CASES = (
    QueueCase("claims, full", load="full"),
    QueueCase("claims, after churn", load="churn"),
)


@dataclass(frozen=True, kw_only=True)
class QueueBench:
    """What to measure, on which database."""

    database_url: str
    jobs: int = 20_000
    payload_bytes: int = 40
    claim_batch: int | None = None
    heartbeat: timedelta | None = None
    concurrency: int = 10
    workers: int = 1
    dead: int = 200_000
    foreign: int = 100_000
    pending: int = 1_000_000
    history: int = 10_000_000
    churn: int = 1_000_000


@dataclass
class QueueRow:
    """A case's figures; ``None`` where it does not tell. Times are milliseconds.

    ``claim_first_ms`` is of workers that have no mark yet; the client is another one,
    with small transactions of its own.
    """

    name: str
    jobs: int
    jobs_a_second: float
    claim_first_ms: float | None
    claim_p50_ms: float | None
    claim_p99_ms: float | None
    wal_bytes_a_job: float
    dead_rows_a_job: float
    worker_cpu_us_a_job: float
    client_p50_ms: float | None
    client_p99_ms: float | None
    replica_lag_bytes: int | None
    replica_lag_seconds: float | None


@dataclass
class QueueReport:
    """What ``indexer bench queue`` prints."""

    rows: list[QueueRow]
    idle_client_p50_ms: float | None
    wake_up_p50_ms: float | None
    wake_up_p99_ms: float | None
    heartbeat_hot_share: float | None
    server: dict[str, str]

    def shown(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return asdict(self)


async def run_queue_bench(
    bench: QueueBench, cases: list[QueueCase], *, say: Say
) -> QueueReport:
    """Measure each case once, in a schema of its own; what was made is dropped.

    Raises BenchmarkFailed where a job was lost or done twice.
    """
    rows = []
    for case in cases:
        row = await _run(bench, case)
        rows.append(row)
        say(
            f"{case.name}: {row.jobs_a_second:,.0f} jobs/s, claim "
            f"{_shown(row.claim_p50_ms)} ms, at worst {_shown(row.claim_first_ms)}"
        )
    async with bench_schema(bench.database_url) as database:
        async with database.connection() as conn:
            await ensure_history(conn)
        async with watched(database) as idle:
            await asyncio.sleep(2.0)
        wakes = await wake_up_seconds(database, count=min(_WAKE_UPS, bench.jobs))
        hot = await heartbeat_hot_share(database)
    return QueueReport(
        rows=rows,
        idle_client_p50_ms=_ms(percentile(idle.seconds, 0.5)),
        wake_up_p50_ms=_ms(percentile(wakes, 0.5)),
        wake_up_p99_ms=_ms(percentile(wakes, 0.99)),
        heartbeat_hot_share=hot,
        server=await server_settings(bench.database_url),
    )


async def _run(bench: QueueBench, case: QueueCase) -> QueueRow:
    async with bench_schema(bench.database_url) as database:
        async with database.connection() as conn:
            await ensure_history(conn)
        async with _loaded(database, bench, case):
            return await _measure(
                database,
                bench,
                case,
                min(bench.jobs, _CLAIMED_JOBS) if case.load else bench.jobs,
            )


async def _measure(
    database: Database, bench: QueueBench, case: QueueCase, jobs: int
) -> QueueRow:
    await fill_pending(database, KIND, jobs, bench.payload_bytes)
    if case.load in ("", "full"):
        await tidy(database)
        await flush_to_disk(database)
    before = await _position(database)
    async with watched(database) as beside:
        drained = await _drain(_settings(database, bench, case), bench.workers)
    after = await _position(database)
    async with database.connection(reply_timeout=PATIENCE) as conn:
        [(done, seconds)] = await _DRAINED.rows(conn, kind=KIND)
    if done != jobs or sum(each.jobs for each in drained) != jobs:
        raise BenchmarkFailed(f"{case.name}: {done} of {jobs} jobs were finished")
    claims = [seconds for each in drained for seconds in each.claims[1:]]
    return QueueRow(
        name=case.name,
        jobs=jobs,
        jobs_a_second=jobs / max(seconds, 1e-9),
        claim_first_ms=_ms(max(each.claims[0] for each in drained if each.claims)),
        claim_p50_ms=_ms(percentile(claims, 0.5)),
        claim_p99_ms=_ms(percentile(claims, 0.99)),
        wal_bytes_a_job=(after.wal - before.wal) / jobs,
        dead_rows_a_job=(after.versions - before.versions) / jobs,
        worker_cpu_us_a_job=1e6 * sum(each.cpu_seconds for each in drained) / jobs,
        client_p50_ms=_ms(percentile(beside.seconds, 0.5)),
        client_p99_ms=_ms(percentile(beside.seconds, 0.99)),
        replica_lag_bytes=beside.lag_bytes,
        replica_lag_seconds=beside.lag_seconds,
    )


@asynccontextmanager
async def _loaded(
    database: Database, bench: QueueBench, case: QueueCase
) -> AsyncIterator[None]:
    """Put into the table what the case wants there, for as long as the block lasts."""
    if case.load == "snapshot":
        await fill_pending(database, KIND, bench.dead, bench.payload_bytes)
        holder = await connect(
            database.url, schema=database.schema, application="indexer bench snapshot"
        )
        async with holder:
            await holder.execute(b"begin isolation level repeatable read")
            await _SNAPSHOT.run(holder)
            await kill_all(database)
            yield
        return
    if case.load == "foreign":
        await fill_pending(
            database,
            "foreign",
            bench.foreign,
            bench.payload_bytes,
            age=timedelta(hours=2),
        )
    elif case.load == "full":
        await fill_history(database, bench.history)
        await fill_pending(
            database, "other", bench.pending, bench.payload_bytes, age=timedelta(0)
        )
    elif case.load == "churn":
        await fill_pending(database, "churn", bench.churn, bench.payload_bytes)
        settings = replace(_settings(database, bench, case), kind="churn", quick=True)
        await _drain(settings, bench.workers)
    yield


def _settings(database: Database, bench: QueueBench, case: QueueCase) -> DrainSettings:
    return DrainSettings(
        url=database.url,
        schema=database.schema,
        concurrency=bench.concurrency,
        claim_batch=case.claim_batch or bench.claim_batch,
        heartbeat=bench.heartbeat,
        quick=case.quick,
    )


async def _drain(settings: DrainSettings, workers: int) -> list[Drained]:
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return await asyncio.gather(
            *(loop.run_in_executor(pool, drain, settings) for _ in range(workers))
        )


class _Position(NamedTuple):
    wal: int
    versions: int


async def _position(database: Database) -> _Position:
    conn = await database.connect(application="indexer bench")
    async with conn:
        [(wal,)] = await _WAL.rows(conn)
        [(updated, _, deleted, _)] = await _VERSIONS.rows(conn, schema=conn.schema)
    return _Position(wal, updated + deleted)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
