"""What was learned about the nodes, kept for the next process; and the tip's share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Literal

import psycopg
from psycopg.types.json import Jsonb

from indexer.chain.capabilities import look_at_history
from indexer.chain.endpoints import Endpoint, Endpoints
from indexer.db.connection import Connection, Database
from indexer.db.queries import load
from indexer.errors import DatabaseUnavailable
from indexer.jobs.patience import keep_going
from indexer.jobs.roles import role_holder
from indexer.services.follow.role import ROLE
from indexer.tasks import end_tasks

log = logging.getLogger(__name__)

_QUERIES = load("chain")
_UPSERT = _QUERIES["upsert_endpoint"]
_ENDPOINTS = _QUERIES["endpoints"]
_LOWEST = load("plan")["lowest_queued_height"]

# Limits change rarely and a follower comes and goes rarely; a few rows are no load.
_LOOK_SECONDS = 5.0
# Of a rate that is limited so much is left to a follower beside the backfill. It asks
# a few times a second at most, but must find the node's bucket filled whenever it does.
_BACKFILL_SHARE = 0.75
# Figures that change with every request are no reason to write, and a rate only where
# it changes much.
_VOLATILE = {"latency_seconds", "in_flight", "batch_size", "requests_per_second"}
_RATE = "requests_per_second"


@asynccontextmanager
async def remembered(
    database: Database, endpoints: Endpoints, *, role: Literal["work", "follow"]
) -> AsyncIterator[None]:
    """Begin with what earlier processes learned, and keep what this one learns.

    Beside it a worker leaves a part of a limited rate to the follower, if there is
    one. Nothing here fails for want of the database.
    """
    keeper = _Keeper(database, endpoints, role=role)
    await keeper.restore()
    task = asyncio.create_task(keeper.keep())
    try:
        yield
    finally:
        await end_tasks(task)
        await keeper.save(also_volatile=True)


async def look_at_queued_history(database: Database, endpoints: Endpoints) -> None:
    """Look whether the nodes have the lowest block that is queued."""
    async with database.connection() as conn:
        row = await _LOWEST.row(conn)
    if row is not None and row[0] is not None:
        await look_at_history(endpoints, int(row[0]))


class _Keeper:
    def __init__(self, database: Database, endpoints: Endpoints, *, role: str) -> None:
        self._database = database
        self._endpoints = endpoints
        self._is_worker = role == "work"
        self._saved: dict[str, tuple[str, dict[str, Any]]] = {}

    async def restore(self) -> None:
        async with self._database.connection() as conn:
            rows = await _ENDPOINTS.rows(conn)
        known = {name: limits for name, _, limits, _, _ in rows}
        for endpoint in self._endpoints.all:
            endpoint.restore(known.get(endpoint.key) or {})

    async def keep(self) -> None:
        """Save and look around, again and again."""

        async def body() -> None:
            while True:
                await self.save(also_volatile=False)
                await asyncio.sleep(_LOOK_SECONDS)

        await keep_going("keeping what was learned of nodes", body, random=Random())

    async def save(self, *, also_volatile: bool) -> None:
        try:
            async with self._database.connection() as conn:
                for endpoint in self._endpoints.all:
                    await self._save(conn, endpoint, also_volatile=also_volatile)
                if self._is_worker:
                    await self._share(conn)
        except (DatabaseUnavailable, psycopg.Error) as error:
            log.debug("what was learned about the nodes is not kept yet: %s", error)

    async def _save(
        self, conn: Connection, endpoint: Endpoint, *, also_volatile: bool
    ) -> None:
        limits = endpoint.learned()
        if not self._is_worker:
            # A follower asks for little and finds out little.
            limits.pop(_RATE, None)
        steady = {key: limits[key] for key in limits.keys() - _VOLATILE}
        steady[_RATE] = f"{limits.get(_RATE, 0.0):.1g}"
        state = _state(endpoint)
        if not also_volatile and self._saved.get(endpoint.key) == (state, steady):
            return
        await _UPSERT.run(
            conn,
            name=endpoint.key,
            state=state,
            limits=Jsonb(limits),
            last_error=endpoint.last_error,
        )
        self._saved[endpoint.key] = (state, steady)

    async def _share(self, conn: Connection) -> None:
        holder = await role_holder(conn, name=ROLE)
        follows = holder is not None and holder.left.total_seconds() > 0
        for endpoint in self._endpoints.all:
            endpoint.pace.share = _BACKFILL_SHARE if follows else 1.0


def _state(endpoint: Endpoint) -> str:
    if endpoint.breaker.is_open:
        return "failing"
    if endpoint.trust.is_lost:
        return "distrusted"
    return "answers" if endpoint.latency_seconds else "unknown"
