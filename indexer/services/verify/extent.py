"""Which heights there should be, which rows there are, and what is queued."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from indexer.db.connection import Connection, Database
from indexer.db.queries import load
from indexer.ranges import (
    BlockRange,
    count,
    difference,
    intersection,
    runs,
    split,
    union,
)
from indexer.services.kinds import INDEX_BLOCKS
from indexer.services.verify.faults import Fault, FaultKind
from indexer.store import blocks as stored
from indexer.store import chain, coverage
from indexer.store.coverage import BUCKET_HEIGHTS
from indexer.store.partitions import HEIGHTS_PER_PARTITION
from indexer.store.read import begin_snapshot

_QUERIES = load("verify")
_BOUNDS = _QUERIES["table_bounds"]
_ANY_CHILDREN = _QUERIES["any_children"]
_JOBS_OVER = _QUERIES["jobs_over"]


class Extent(NamedTuple):
    """What an audit is about.

    ``wanted`` are the heights that have to be stored, ``looked_at`` those whose rows
    are read: where there are any, or were noted to be.
    """

    wanted: list[BlockRange]
    looked_at: list[BlockRange]


class Queued(NamedTuple):
    """An unfinished job and the heights it stands for."""

    id: int
    kind: str
    status: str
    last_error: str | None
    blocks: BlockRange


async def find_extent(
    database: Database, *, first: int | None, end: int | None
) -> Extent:
    """Return what to look at between two heights, ``end`` not included.

    All heights of a range that is named have to be stored; where none is, those that
    were ever planned or stored.
    """
    async with database.connection() as conn:
        noted = union(
            await coverage.covered(conn, dataset="blocks")
            + await coverage.covered(conn, dataset="events")
        )
        planned = await chain.planned(conn)
        row = await _BOUNDS.row(conn)
        rows = [BlockRange(row[0], row[1])] if row and row[0] is not None else []
        known = union(noted + planned + rows)
        low = first if first is not None else known[0].first if known else 0
        high = end - 1 if end is not None else known[-1].last if known else -1
        if high < low:
            return Extent([], [])
        whole = BlockRange(low, high)
        present = await _present(conn, intersection(rows, [whole]))
        orphans = await _with_children(conn, difference(rows, present), whole)
    named = first is not None or end is not None
    wanted = [whole] if named else union(planned + noted + present)
    if high >= 0:
        # By hand anything can be stored, also below the first block of all.
        wanted = intersection(wanted, [BlockRange(0, high)])
    return Extent(wanted, intersection(union(noted + present + orphans), [whole]))


async def _present(conn: Connection, ranges: list[BlockRange]) -> list[BlockRange]:
    """Return the stored heights, a partition at a time: no statement runs for long."""
    found: list[BlockRange] = []
    for each in ranges:
        for piece in split(each, HEIGHTS_PER_PARTITION):
            found += await stored.stored_ranges(conn, piece)
    return union(found)


async def _with_children(
    conn: Connection, holes: list[BlockRange], whole: BlockRange
) -> list[BlockRange]:
    """Return parts of ``holes`` that hold rows of no block."""
    found: list[BlockRange] = []
    for hole in intersection(holes, [whole]):
        if not await _any_children(conn, hole):
            continue
        for piece in split(hole, BUCKET_HEIGHTS):
            if await _any_children(conn, piece):
                found.append(piece)
    return found


async def _any_children(conn: Connection, heights: BlockRange) -> bool:
    row = await _ANY_CHILDREN.row(conn, first=heights.first, last=heights.last)
    return row is not None and bool(row[0])


async def jobs_over(conn: Connection, heights: BlockRange) -> list[Queued]:
    """Return the unfinished indexing jobs that stand for some of the heights."""
    rows = await _JOBS_OVER.rows(conn, first=heights.first, last=heights.last)
    return [
        Queued(id_, kind, status, error, BlockRange(int(first), int(last)))
        for id_, kind, status, error, first, last in rows
        if first <= last
    ]


async def find_missing(
    database: Database, wanted: list[BlockRange]
) -> tuple[list[Fault], int]:
    """Return a fault for each hole that no job stands for, and how much waits for one.

    The holes are looked at again together with the queue, so that a job that ended in
    between is no fault.
    """
    faults: list[Fault] = []
    waiting = 0
    async with database.connection() as conn:
        holes = difference(wanted, await _present(conn, wanted))
    for hole in holes:
        async with database.connection() as conn, conn.transaction():
            await begin_snapshot(conn)
            left = difference([hole], await _present(conn, [hole]))
            queued = [
                each
                for each in await jobs_over(conn, hole)
                if each.kind == INDEX_BLOCKS
            ]
        alive = [each.blocks for each in queued if each.status != "failed"]
        waiting += count(intersection(left, alive))
        for gap in difference(left, alive):
            faults.append(
                Fault(FaultKind.MISSING_BLOCK, gap.first, gap.last, _why(gap, queued))
            )
    return faults, waiting


def _why(gap: BlockRange, queued: list[Queued]) -> str:
    for job in queued:
        if job.status == "failed" and intersection([gap], [job.blocks]):
            return f"job {job.id} for it failed: {job.last_error}"
    return "it is not stored, and no job is queued for it"


def sampled(looked_at: list[BlockRange], *, size: int, seed: int) -> list[BlockRange]:
    """Return some of the heights, always the same ones for a seed."""
    total = count(looked_at)
    places = sorted(Random(seed).sample(range(total), min(size, total)))
    heights: list[int] = []
    passed, ranges = 0, iter(looked_at)
    current = next(ranges, None)
    for place in places:
        while current is not None and place >= passed + len(current):
            passed += len(current)
            current = next(ranges, None)
        if current is not None:
            heights.append(current.first + place - passed)
    return runs(heights)
