"""Queue what is missing of a height range, exactly once.

Missing is read from the rows, not from notes about them. Queued means pending,
running or failed. Everything happens in one transaction under the schema's planning
lock, so two plans and a follower at once queue nothing twice.
"""

from __future__ import annotations

from typing import NamedTuple

from indexer.db.connection import Connection, Database
from indexer.db.queries import load
from indexer.jobs import backlog
from indexer.ranges import (
    BlockRange,
    count,
    difference,
    intersection,
    runs,
    split,
    union,
)
from indexer.services.kinds import (
    BACKFILL_PRIORITY,
    INDEX_BLOCKS,
    INDEX_EVENTS,
    range_payload,
)
from indexer.store import blocks as stored
from indexer.store import chain
from indexer.store.partitions import HEIGHTS_PER_PARTITION as _PIECE
from indexer.store.partitions import ensure_partitions

RANGE_SIZE = 10_000

_QUERIES = load("plan")
_QUEUED = _QUERIES["queued_ranges"]
_STORED_SIZE = _QUERIES["stored_size"]


class QueuedRange(NamedTuple):
    """An unfinished job and the heights it stands for."""

    id: int
    kind: str
    status: str
    last_error: str | None
    blocks: BlockRange


class Plan(NamedTuple):
    """What was queued (or would be), and what there is already."""

    blocks: BlockRange
    block_jobs: list[BlockRange]
    event_jobs: list[BlockRange]
    missing_blocks: int
    queued_before: int
    failed: list[QueuedRange]
    bytes_per_block: int | None


class _Missing(NamedTuple):
    blocks: list[BlockRange]
    events: list[BlockRange]


async def plan(
    database: Database,
    *,
    blocks: BlockRange,
    range_size: int = RANGE_SIZE,
    priority: int = BACKFILL_PRIORITY,
    dry_run: bool = False,
) -> Plan:
    """Queue jobs for the missing heights of a range; return what was queued.

    Makes the partitions first. A dry run changes nothing at all.
    """
    async with database.connection() as conn:
        if not dry_run:
            await ensure_partitions(conn, blocks)
        # Always the jobs before the rows: what a job stores that ends in between is
        # then counted as queued, and not as missing with nobody to fetch it.
        queued = await queued_ranges(conn)
        # The long look at the rows happens outside the transaction that holds the
        # planning lock; inside it only what was found missing is looked at again.
        found = await _find_missing(conn, [blocks])
    async with database.transaction() as conn:
        if not dry_run:
            await chain.lock_planning(conn)
            queued = await queued_ranges(conn)
            found = await _find_missing(conn, union(found.blocks + found.events))
        made = await _subtract_queued(conn, blocks, found, queued, range_size)
        if not dry_run:
            await _enqueue(conn, made, range_size, priority)
    return made


async def _find_missing(conn: Connection, ranges: list[BlockRange]) -> _Missing:
    missing = _Missing([], [])
    # One partition at a time, so that no statement runs for hours.
    for piece in (part for each in ranges for part in split(each, _PIECE)):
        present = await stored.stored_ranges(conn, piece)
        missing.blocks.extend(difference([piece], present))
        if present:
            missing.events.extend(runs(await stored.without_events(conn, piece)))
    return missing


async def _subtract_queued(
    conn: Connection,
    blocks: BlockRange,
    missing: _Missing,
    queued: list[QueuedRange],
    range_size: int,
) -> Plan:
    in_block_jobs = [each.blocks for each in queued if each.kind == INDEX_BLOCKS]
    in_event_jobs = [each.blocks for each in queued if each.kind == INDEX_EVENTS]
    # A queued index_blocks job will enqueue the events of its whole range itself.
    return Plan(
        blocks=blocks,
        block_jobs=_cut(difference(missing.blocks, in_block_jobs), range_size),
        event_jobs=_cut(
            difference(missing.events, in_event_jobs + in_block_jobs), range_size
        ),
        missing_blocks=count(union(missing.blocks)),
        queued_before=count(intersection(missing.blocks, in_block_jobs)),
        failed=[
            each
            for each in queued
            if each.status == "failed" and intersection([each.blocks], [blocks])
        ],
        bytes_per_block=await _bytes_per_block(conn),
    )


async def _enqueue(
    conn: Connection, made: Plan, range_size: int, priority: int
) -> None:
    for kind, ranges in (
        (INDEX_BLOCKS, made.block_jobs),
        (INDEX_EVENTS, made.event_jobs),
    ):
        if ranges:
            await backlog.enqueue(
                conn,
                kind=kind,
                payloads=[range_payload(each) for each in ranges],
                priority=priority,
            )
    if difference([made.blocks], await chain.planned(conn)):
        await chain.record_plan(
            conn,
            blocks=made.blocks,
            range_size=range_size,
            jobs_queued=len(made.block_jobs) + len(made.event_jobs),
        )


def _cut(ranges: list[BlockRange], size: int) -> list[BlockRange]:
    return [piece for whole in ranges for piece in split(whole, size)]


async def queued_ranges(conn: Connection) -> list[QueuedRange]:
    """Return every unfinished indexing job with the heights it stands for."""
    return [
        QueuedRange(id_, kind, status, error, BlockRange(int(first), int(last)))
        for id_, kind, status, error, first, last in await _QUEUED.rows(conn)
        if first is not None and last is not None and first <= last
    ]


async def _bytes_per_block(conn: Connection) -> int | None:
    row = await _STORED_SIZE.row(conn, schema=conn.schema)
    # Empty tables and their indexes take some pages; below a thousand blocks those
    # would be most of what is measured.
    if row is None or row[1] < 1000:
        return None
    return int(row[0] // row[1])
