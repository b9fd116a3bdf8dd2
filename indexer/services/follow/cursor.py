"""Where the follower begins, and what it queues below."""

from __future__ import annotations

import logging
from typing import Literal

from indexer.chain.endpoints import Endpoints
from indexer.chain.tip import head_number
from indexer.db.connection import Database
from indexer.ranges import BlockRange
from indexer.services.finality import require_finalized
from indexer.services.plan import plan
from indexer.store import blocks as stored
from indexer.store import chain

Start = int | Literal["finalized", "latest"] | None

log = logging.getLogger(__name__)


async def first_height(
    database: Database, endpoints: Endpoints, *, start: Start, depth: int | None
) -> int:
    """Return the first height to store.

    ``start`` None: above everything stored or planned, else above the finalized one.
    """
    if isinstance(start, int):
        return start
    if start == "latest":
        return await head_number(endpoints)
    if start is None:
        async with database.connection() as conn:
            highest = await stored.highest_block(conn)
            planned = await chain.planned(conn)
        if highest is not None or planned:
            # Planned heights belong to the backfill even while they are not stored.
            known = [each.last for each in planned]
            return max(*known, highest.number if highest else -1, -1) + 1
    return await require_finalized(endpoints, depth) + 1


async def resumed_height(database: Database, *, left_at: int) -> int:
    """Return where to go on after another process had the role meanwhile."""
    async with database.connection() as conn:
        highest = await stored.highest_block(conn)
    return left_at if highest is None else highest.number + 1


async def plan_hole(database: Database, *, start: int) -> None:
    """Queue what lies between the highest planned height and the start."""
    async with database.connection() as conn:
        planned = await chain.planned(conn)
    first = max((each.last for each in planned), default=-1) + 1
    if first >= start:
        return
    if not planned:
        log.info(
            "nothing below block %d is planned; `indexer plan --from 0 --to %d` "
            "queues it",
            start,
            start,
        )
        return
    hole = BlockRange(first, start - 1)
    made = await plan(database, blocks=hole)
    jobs = len(made.block_jobs) + len(made.event_jobs)
    if jobs:
        log.info("queued %d jobs for blocks %s below the tip", jobs, hole)
