"""Serve /metrics, /health and /ready, and feed the metrics from the worker."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from indexer.errors import ConfigError
from indexer.jobs.job import Job
from indexer.jobs.observer import Ending
from indexer.jobs.reaper import Reaped
from indexer.metrics import Metrics

log = logging.getLogger(__name__)

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

    def reaped(self, jobs: list[Reaped]) -> None:
        """Count leases that were taken back."""
        self._metrics.leases_expired.inc(len(jobs))

    def heartbeat_failed(self) -> None:
        """Count a heartbeat without an answer."""
        self._metrics.heartbeats_failed.inc()


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
    app = web.Application()

    async def exposition(_request: web.Request) -> web.Response:
        return web.Response(body=metrics.exposition(), content_type="text/plain")

    async def health(_request: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def ready(_request: web.Request) -> web.Response:
        reason = complaint()
        if reason is None:
            return web.Response(text="ready\n")
        return web.Response(text=f"{reason}\n", status=503)

    app.router.add_get("/metrics", exposition)
    app.router.add_get("/health", health)
    app.router.add_get("/ready", ready)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, port=port)
        try:
            await site.start()
        except OSError as error:
            raise ConfigError(
                f"--metrics-port {port} cannot be used: {error.strerror}"
            ) from None
        bound = int(runner.addresses[0][1])
        log.info("metrics on port %d", bound)
        yield bound
    finally:
        await runner.cleanup()
