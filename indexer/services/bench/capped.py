"""Keep a backfill to half of the machine: its worker, and PostgreSQL's part of it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from indexer.db.connection import Database
from indexer.db.queries import load
from indexer.tasks import end_tasks

_BACKENDS = load("bench")["backends_of_workers"]

# A worker's connections come and go.
_LOOK_SECONDS = 0.3


@asynccontextmanager
async def capped(
    database: Database, worker: int, *, is_local: bool
) -> AsyncIterator[None]:
    """Cap a worker, just started, and what it starts, while the body runs.

    ``is_local`` is whether the server runs on this machine, for this benchmark alone.
    Where processes cannot be kept to some cores, nothing is capped.
    """
    if sys.platform != "linux":
        yield
        return
    cores = sorted(os.sched_getaffinity(0))
    half = cores[: max(1, len(cores) // 2)]
    os.sched_setaffinity(worker, half)
    watching = asyncio.create_task(_cap_backends(database, half)) if is_local else None
    try:
        yield
    finally:
        if watching is not None:
            await end_tasks(watching)


async def _cap_backends(database: Database, cores: list[int]) -> None:
    async with database.connection() as conn:
        while True:
            for (pid,) in await _BACKENDS.rows(conn):
                # It has just ended, or belongs to another user.
                with suppress(OSError):
                    os.sched_setaffinity(pid, cores)
            await asyncio.sleep(_LOOK_SECONDS)
