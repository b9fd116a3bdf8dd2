"""One pass of what workers also do on timers, for a cron job or an idle queue."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import NamedTuple

from indexer.config import Config
from indexer.db.connection import Connection, Database
from indexer.db.statistics import analyze_parents
from indexer.jobs.history import age_out_failed, drop_old, ensure_history
from indexer.jobs.reaper import Reaped, end_silent_copies, lapsed_claims, reap
from indexer.jobs.upkeep import UNSEEN_LEASES
from indexer.jobs.workers import retire
from indexer.ranges import BlockRange
from indexer.store.blocks import highest_block
from indexer.store.partitions import HEIGHTS_PER_PARTITION, ensure_partitions

_LOG = logging.getLogger(__name__)

# As far ahead of the tip as the follower makes them.
_HEIGHTS_AHEAD = HEIGHTS_PER_PARTITION // 10


class Maintained(NamedTuple):
    """What one pass did; counts of jobs, and names of everything else."""

    jobs_reaped: int
    jobs_failed: int
    jobs_aged_out: int
    history_made: list[str]
    history_dropped: list[str]
    chain_made: list[str]
    workers_retired: list[str]
    analyzed: list[str]


async def maintain(database: Database, config: Config) -> Maintained:
    """Reap, make and drop partitions, age out, retire and analyze, once.

    Any number of these and of workers may do so at the same time. Takes a lease longer
    where claims are past theirs.
    """
    reaped = await _reap(database, config)
    async with database.connection() as conn:
        made = await ensure_history(conn)
        aged = await age_out_failed(conn, retention=config.history_retention)
        dropped = await drop_old(conn, retention=config.history_retention)
    # Dropping may have cost the connection.
    async with database.connection() as conn:
        return Maintained(
            jobs_reaped=len(reaped),
            jobs_failed=sum(each.status == "failed" for each in reaped),
            jobs_aged_out=aged,
            history_made=made,
            history_dropped=dropped,
            chain_made=await _partitions_ahead(conn),
            workers_retired=await retire(conn, unseen=config.lease * UNSEEN_LEASES),
            analyzed=await analyze_parents(conn, older_than=timedelta(0)),
        )


async def _reap(database: Database, config: Config) -> list[Reaped]:
    """Take back claims that are still past their lease after one lease more.

    The database may have come back a moment ago, where a standby was promoted or a
    network mended: whoever holds a claim has a lease to say so.
    """
    async with database.connection() as conn:
        lapsed = await lapsed_claims(conn)
    if not lapsed:
        return []
    _LOG.warning(
        "%s claims are past their lease; waiting one more (%g s), so that whoever "
        "still holds them can renew",
        lapsed,
        config.lease.total_seconds(),
    )
    await asyncio.sleep(config.lease.total_seconds())
    async with database.connection() as conn:
        await end_silent_copies(conn, silence=config.lease)
        return await reap(
            conn, lease=config.lease, max_lost_leases=config.max_lost_leases
        )


async def _partitions_ahead(conn: Connection) -> list[str]:
    highest = await highest_block(conn)
    if highest is None:
        return []
    ahead = BlockRange(highest.number, highest.number + _HEIGHTS_AHEAD)
    return await ensure_partitions(conn, ahead)
