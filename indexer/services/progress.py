"""How far the planned blocks are, from the coverage notes; cheap at any size."""

from __future__ import annotations

from typing import NamedTuple

from indexer.db.connection import Database
from indexer.ranges import count, intersection
from indexer.services.status.pace import Pace, Rates
from indexer.services.status.queue import count_queue
from indexer.store import chain, coverage


class Snapshot(NamedTuple):
    """Planned heights, how many of them are stored, and how many jobs are left.

    ``rates`` is None at the first look.
    """

    planned: int
    blocks: int
    events: int
    jobs: int
    rates: Rates | None

    @property
    def eta_seconds(self) -> float | None:
        """When it is done, if it goes on like that; None where it does not move."""
        left = 2 * self.planned - self.blocks - self.events
        if self.rates is None or not self.rates.blocks + self.rates.events:
            return None
        return left / (self.rates.blocks + self.rates.events)


async def read_progress(database: Database, pace: Pace) -> Snapshot:
    """Read one snapshot; the numbers may be of slightly different moments."""
    async with database.connection() as conn:
        planned = await chain.planned(conn)
        blocks = await coverage.covered(conn, dataset="blocks")
        events = await coverage.covered(conn, dataset="events")
        queue = await count_queue(conn)
    stored, indexed = (count(intersection(planned, each)) for each in (blocks, events))
    return Snapshot(
        planned=count(planned),
        blocks=stored,
        events=indexed,
        jobs=sum(queue.pending.values()) + sum(queue.running.values()),
        rates=pace.look(blocks=stored, events=indexed),
    )
