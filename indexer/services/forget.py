"""Remove a range of heights on purpose, with everything that hangs on it."""

from __future__ import annotations

import time
from typing import NamedTuple

import msgspec

from indexer.db.connection import Connection, Database
from indexer.db.queries import load
from indexer.jobs import backlog
from indexer.ranges import BlockRange, difference
from indexer.services.kinds import range_payload
from indexer.store import chain, coverage

_QUERIES = load("forget")
_JOBS = _QUERIES["jobs_in_range"]
_HOLD = _QUERIES["hold_jobs_to_end"]
_DELETE_JOBS = _QUERIES["delete_jobs"]
_DELETE_PLANS = _QUERIES["delete_plans"]
_HIGHEST_ROW = _QUERIES["highest_row"]
_LOCK = load("verify")["lock_heights"]
_DELETE = load("verify")["delete_heights"]

# Heights a transaction, and how long one should take: nobody waits longer for a lock.
_FIRST_SIZE = 50
_LARGEST_SIZE = 5_000
_TARGET_SECONDS = 0.5


class Forgotten(msgspec.Struct):
    """How many block rows were removed, and how many jobs were ended or cut."""

    blocks: int
    jobs: int

    def as_json(self) -> bytes:
        """Return it as a JSON object."""
        return msgspec.json.encode(self)


class _Job(NamedTuple):
    id: int
    kind: str
    priority: int
    blocks: BlockRange


async def forget(database: Database, *, blocks: BlockRange) -> Forgotten:
    """Remove heights: rows, jobs, coverage and plans.

    First the jobs and plans, so that nothing writes there again; then the rows, from
    the top down in short transactions, so that no reader sees a block of the range
    whose parent in it is gone. Running it again after an interruption finishes it.
    """
    async with database.transaction() as conn:
        await chain.lock_planning(conn)
        jobs = await _end_jobs(conn, blocks)
        await _cut_plans(conn, blocks)
    removed = 0
    size = _FIRST_SIZE
    last = blocks.last
    while last >= blocks.first:
        async with database.connection() as conn:
            row = await _HIGHEST_ROW.row(conn, first=blocks.first, last=last)
        if row is None or row[0] is None:
            break
        part = BlockRange(max(blocks.first, row[0] - size + 1), row[0])
        began = time.monotonic()
        removed += await _remove(database, part)
        if time.monotonic() - began > _TARGET_SECONDS:
            size = max(1, size // 2)
        else:
            size = min(2 * size, _LARGEST_SIZE)
        last = part.first - 1
    async with database.transaction() as conn:
        await coverage.subtract(conn, blocks=blocks)
    return Forgotten(removed, jobs)


async def _remove(database: Database, part: BlockRange) -> int:
    async with database.transaction() as conn:
        await _LOCK.run(conn, first=part.first, last=part.last)
        removed = await _DELETE.run(conn, first=part.first, last=part.last)
        await coverage.subtract(conn, blocks=part)
    return removed


async def _end_jobs(conn: Connection, blocks: BlockRange) -> int:
    """End the jobs for the heights; what they stand for beside is queued anew.

    One that was completed while its lock was waited for may have enqueued another,
    so the look is repeated until it finds nothing.
    """
    ended = 0
    while found := await _jobs_in(conn, blocks):
        held = {
            row[0] for row in await _HOLD.rows(conn, ids=[each.id for each in found])
        }
        cut = [each for each in found if each.id in held]
        await _DELETE_JOBS.run(conn, ids=sorted(held))
        for job in cut:
            await backlog.enqueue(
                conn,
                kind=job.kind,
                payloads=[
                    range_payload(rest) for rest in difference([job.blocks], [blocks])
                ],
                priority=job.priority,
            )
        ended += len(cut)
    return ended


async def _jobs_in(conn: Connection, blocks: BlockRange) -> list[_Job]:
    rows = await _JOBS.rows(conn, first=blocks.first, last=blocks.last)
    return [
        _Job(id_, kind, priority, BlockRange(int(first), int(last)))
        for id_, kind, priority, first, last in rows
    ]


async def _cut_plans(conn: Connection, blocks: BlockRange) -> None:
    rows = await _DELETE_PLANS.rows(conn, first=blocks.first, last=blocks.last)
    for first, last, range_size in rows:
        for rest in difference([BlockRange(first, last)], [blocks]):
            await chain.record_plan(
                conn, blocks=rest, range_size=range_size, jobs_queued=0
            )
