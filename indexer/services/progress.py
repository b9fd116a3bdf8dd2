"""How far the planned blocks are, from the coverage notes; cheap at any size."""

from __future__ import annotations

import time
from typing import NamedTuple

from indexer.db.connection import Database
from indexer.jobs import backlog
from indexer.ranges import count, intersection
from indexer.store import chain, coverage


class Snapshot(NamedTuple):
    """Planned heights and how many of them are stored; ``at`` is monotonic seconds."""

    at: float
    planned: int
    blocks: int
    events: int
    pending: int
    running: int


async def read_progress(database: Database) -> Snapshot:
    """Read one snapshot; the numbers may be of slightly different moments."""
    async with database.connection() as conn:
        planned = await chain.planned(conn)
        blocks = await coverage.covered(conn, dataset="blocks")
        events = await coverage.covered(conn, dataset="events")
        queue = await backlog.count_jobs(conn)
    return Snapshot(
        at=time.monotonic(),
        planned=count(planned),
        blocks=count(intersection(planned, blocks)),
        events=count(intersection(planned, events)),
        pending=sum(n for (_, status), n in queue.items() if status == "pending"),
        running=sum(n for (_, status), n in queue.items() if status == "running"),
    )
