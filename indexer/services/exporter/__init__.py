"""Metrics of the database, once a database: what ``status`` knows, for Prometheus."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from indexer.db.connection import Database
from indexer.errors import IndexerError
from indexer.log import redact
from indexer.services.exporter.health import add_health
from indexer.services.exporter.queue import add_queue
from indexer.services.exporter.samples import Families
from indexer.services.status import Pace, read_status
from indexer.tasks import end_tasks

log = logging.getLogger(__name__)

# Scrapes that come closer together than this are answered with the same numbers.
_FRESH_SECONDS = 5.0
# Nobody may scrape; /ready and the rates need a look now and then all the same.
_LOOK_SECONDS = 15.0
# Longer than this without an answer and it says that it is not ready.
_PATIENCE_SECONDS = 60.0


class Exporter(Collector):
    """Reads the status now and then, and shows it as metrics."""

    def __init__(
        self, database: Database, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._clock = clock
        self._pace = Pace(clock)
        self._lock = asyncio.Lock()
        self._found: dict[str, Any] | None = None
        self._read_at = float("-inf")
        self._answered_at = clock()
        self._problem: str | None = None
        self._seconds = 0.0
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def complaint(self) -> str | None:
        """Say since when the database does not answer, or None while it does."""
        silent = self._clock() - self._answered_at
        if self._problem is not None:
            return f"the database could not be read: {self._problem}"
        if silent > _PATIENCE_SECONDS:
            return f"the database has not answered for {silent:.0f} s"
        return None

    async def exposition(self) -> bytes:
        """Return the text that Prometheus scrapes, at most some seconds old."""
        await self.refresh()
        return generate_latest(self._registry)

    async def refresh(self) -> None:
        """Read the status unless it was read just now; an outage is only noted."""
        async with self._lock:
            if self._clock() - self._read_at < _FRESH_SECONDS:
                return
            began = self._clock()
            try:
                self._found = await read_status(self._database, pace=self._pace)
            except (IndexerError, psycopg.Error) as error:
                if self._problem is None:
                    log.warning("cannot read the database: %s", error)
                self._problem, self._found = redact(str(error)), None
            else:
                self._problem = None
                self._answered_at = self._clock()
            self._read_at = self._clock()
            self._seconds = self._read_at - began

    def describe(self) -> Iterable[Metric]:
        """Name nothing ahead: what there is depends on what is found."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of what was read last."""
        made = Families(self._database.schema)
        made.gauge(
            "indexer_database_up",
            "Whether the last look at the database was answered.",
            float(self._found is not None),
        )
        made.gauge(
            "indexer_exporter_read_seconds",
            "Time the last look at the database took.",
            self._seconds,
        )
        if self._found is not None:
            add_queue(made, self._found)
            add_health(made, self._found["database"])
        yield from made.metrics()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look now and then while the body runs, also when nobody scrapes."""
        looker = asyncio.create_task(self._look())
        try:
            yield
        finally:
            await end_tasks(looker)

    async def _look(self) -> None:
        while True:
            await self.refresh()
            await asyncio.sleep(_LOOK_SECONDS)
