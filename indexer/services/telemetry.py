"""Feed the metrics from whoever works, and serve /metrics, /health and /ready."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import psycopg
from aiohttp import web

from indexer.chain.endpoints import Endpoint, Endpoints
from indexer.db.connection import Database
from indexer.db.queries import load
from indexer.errors import ConfigError, FinalityViolated, IndexerError
from indexer.jobs.job import Job
from indexer.jobs.observer import Ending
from indexer.jobs.reaper import Reaped
from indexer.jobs.worker import Worker
from indexer.log import redact
from indexer.metrics import CONTENT_TYPE, Metrics
from indexer.tasks import end_tasks

log = logging.getLogger(__name__)

_QUERIES = load("status")
_NOTE_HEAD = _QUERIES["note_head"]
_NOTE_CONTRADICTION = _QUERIES["note_contradiction"]

# Often enough for a lag that people read; one row, updated in place.
_NOTE_HEAD_SECONDS = 2.0

# Why the process is not making progress, or None while it is.
Complaint = Callable[[], str | None]


class WorkerMetrics:
    """The worker's observer, counting into the metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def claimed(self, jobs: int, *, seconds: float) -> None:
        """Count a claim statement."""
        self._metrics.jobs_claimed.inc(jobs)
        self._metrics.claim_seconds.observe(seconds)

    def ended(self, job: Job, ending: Ending, *, reason: str, seconds: float) -> None:
        """Count an execution by how it ended."""
        self._metrics.jobs_ended.labels(job.kind, ending.value).inc()
        self._metrics.job_seconds.labels(job.kind).observe(seconds)
        if ending in (Ending.RETRIED, Ending.FAILED, Ending.SNOOZED):
            self._metrics.job_retries.labels(job.kind, reason).inc()

    def committed(self, *, seconds: float) -> None:
        """Count a chunk's transaction."""
        self._metrics.chunk_seconds.observe(seconds)

    def reaped(self, jobs: list[Reaped]) -> None:
        """Count leases that were taken back."""
        self._metrics.leases_expired.inc(len(jobs))

    def heartbeat_failed(self) -> None:
        """Count a heartbeat without an answer."""
        self._metrics.heartbeats_failed.inc()


class RpcMetrics:
    """The endpoints' observer, counting into the metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def asked(
        self,
        endpoint: str,
        method: str,
        outcome: str,
        *,
        requests: int,
        received: int,
        seconds: float,
    ) -> None:
        """Count a batch of requests."""
        self._metrics.rpc_requests.labels(endpoint, method, outcome).inc(requests)
        self._metrics.rpc_seconds.labels(endpoint).observe(seconds)
        self._metrics.rpc_batch.labels(endpoint).observe(requests)
        self._metrics.rpc_bytes.labels(endpoint).inc(received)


def watch(metrics: Metrics, *, database: Database, endpoints: Endpoints) -> None:
    """Count what is written to the database and asked of the nodes."""

    def copied(table: str, rows: int, sent: int) -> None:
        metrics.rows_written.labels(table).inc(rows)
        metrics.bytes_written.labels(table).inc(sent)

    database.on_copied = copied
    for endpoint in endpoints.all:
        endpoint.observer = RpcMetrics(metrics)
        metrics.breaker_open.labels(endpoint.name).set_function(_is_open(endpoint))


def _is_open(endpoint: Endpoint) -> Callable[[], float]:
    return lambda: float(endpoint.breaker.wait_seconds() > 0)


def watch_worker(metrics: Metrics, worker: Worker) -> None:
    """Show what the worker is at when the metrics are read."""
    metrics.heartbeat_age.set_function(lambda: worker.heartbeat_age_seconds)
    metrics.listener_up.set_function(lambda: float(worker.is_listening))
    metrics.jobs_running.set_function(lambda: worker.jobs_running)


@asynccontextmanager
async def head_noted(database: Database, metrics: Metrics) -> AsyncIterator[None]:
    """Note the newest block that the follower hears of, for ``status``."""
    noter = asyncio.create_task(_note_head(database, metrics))
    try:
        yield
    finally:
        await end_tasks(noter)


async def _note_head(database: Database, metrics: Metrics) -> None:
    while True:
        head = int(metrics.head())
        # One that stands by hears nothing. An outage is told by the follower itself.
        if head:
            with suppress(IndexerError, psycopg.Error):
                async with database.connection() as conn:
                    await _NOTE_HEAD.run(conn, number=head)
        await asyncio.sleep(_NOTE_HEAD_SECONDS)


@asynccontextmanager
async def contradiction_noted(database: Database) -> AsyncIterator[None]:
    """Note for ``status`` what the body stops for where a node contradicts the final.

    The process ends of it, so its own metrics could not tell.
    """
    try:
        yield
    except FinalityViolated as error:
        with suppress(IndexerError, psycopg.Error):
            async with database.connection() as conn:
                await _NOTE_CONTRADICTION.run(conn, text=redact(str(error)))
        raise


@asynccontextmanager
async def serve_metrics(
    metrics: Metrics, *, port: int | None, complaint: Complaint
) -> AsyncIterator[int | None]:
    """Serve while the body runs; give the port, None where none was wanted.

    ``/health`` says that the process is alive, ``/ready`` that it makes progress, and
    why not where it does not. Raises ConfigError where the port is taken.
    """
    if port is None:
        yield None
        return

    async def exposition() -> bytes:
        return metrics.exposition()

    async with serve(
        probes(exposition, complaint), port=port, flag="--metrics-port"
    ) as bound:
        log.info("metrics on port %d", bound)
        yield bound


def probes(
    exposition: Callable[[], Awaitable[bytes]], complaint: Complaint
) -> web.Application:
    """Return an application with /metrics, /health and /ready."""

    async def metrics(_request: web.Request) -> web.Response:
        # web.Response's content_type argument takes no parameters, the header does.
        return web.Response(
            body=await exposition(), headers={"Content-Type": CONTENT_TYPE}
        )

    async def health(_request: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def ready(_request: web.Request) -> web.Response:
        reason = complaint()
        if reason is None:
            return web.Response(text="ready\n")
        return web.Response(text=f"{reason}\n", status=503)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/health", health)
    app.router.add_get("/ready", ready)
    return app


@asynccontextmanager
async def serve(
    app: web.Application, *, port: int, flag: str, host: str | None = None
) -> AsyncIterator[int]:
    """Serve an application while the body runs; give the port it has.

    Raises ConfigError, naming ``flag``, where the port cannot be had.
    """
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host=host, port=port).start()
        except OSError as error:
            raise ConfigError(
                f"{flag} {port} cannot be used: {error.strerror}"
            ) from None
        # A free port (0) is another one for IPv6; IPv4's addresses have two parts.
        yield int(min(runner.addresses, key=len)[1])
    finally:
        await runner.cleanup()
