"""A database that is indexed once, damaged, verified and repaired, within the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from indexer.chain.endpoints import Endpoints
from indexer.config import load_config
from indexer.db.connection import Database
from indexer.jobs.history import ensure_history
from indexer.services.chainprofile import make_prover
from indexer.services.identity import check_identity
from indexer.services.verify.audit import audit
from indexer.services.verify.record import Asked
from indexer.services.verify.repair import repair
from indexer.services.verify.report import Repair, Report
from indexer.services.work import make_worker


@dataclass
class Auditing:
    """A database and nodes, and what their user does with them."""

    database: Database
    endpoints: Endpoints

    async def verify(
        self, asked: Asked | None = None, *, with_node: bool = False
    ) -> Report:
        """Audit in this process; everything unless told otherwise."""
        return await audit(
            self.database,
            Asked() if asked is None else asked,
            endpoints=self.endpoints if with_node else None,
        )

    async def repair(self, report: Report) -> Repair:
        """Repair what was found, and have a worker fetch what is missing."""
        done = await repair(
            self.database,
            self.endpoints,
            await make_prover(self.database, self.endpoints, level="auto"),
            faults=report.faults,
            wanted=report.wanted,
        )
        await self.work()
        return done

    async def work(self) -> None:
        """Run a worker until nothing is left."""
        config = load_config(
            database_url=self.database.url, poll_interval="1s", concurrency=2
        )
        worker = await make_worker(config, self.database, self.endpoints)
        await worker.run(drain=True)

    async def run(self, statement: str) -> list[tuple[object, ...]]:
        """Execute a statement; return its rows, if it gives any."""
        async with self.database.connection() as conn:
            cursor = await conn.execute(statement.encode())
            return await cursor.fetchall() if cursor.description else []


@asynccontextmanager
async def auditing(database_url: str, *urls: str) -> AsyncIterator[Auditing]:
    """Open a database and the nodes of its chain."""
    async with (
        Database(database_url, schema="indexer", size=6) as database,
        Endpoints.from_urls(urls) as endpoints,
    ):
        async with database.connection() as conn:
            await ensure_history(conn)
        await check_identity(database, endpoints)
        yield Auditing(database, endpoints)
