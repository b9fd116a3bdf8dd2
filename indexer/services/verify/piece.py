"""A piece of the heights: read, examined, and noted as what it is found to be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from psycopg import errors as pg

from indexer.chain.verify import Profile
from indexer.db.connection import Connection, set_local_timeouts
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
from indexer.services.verify.examine import Examination
from indexer.services.verify.extent import Queued, jobs_over
from indexer.services.verify.faults import Fault, FaultKind, Found
from indexer.store import blocks as stored
from indexer.store import chain, coverage
from indexer.store.coverage import BUCKET_HEIGHTS, Dataset, Noted
from indexer.store.read import begin_snapshot, read_rows

# A chunk is a transaction: this many rows are read, proven and noted in about a fifth
# of a second.
_ROWS_A_CHUNK = 20_000
_FIRST_CHUNK = 50
_LARGEST_CHUNK = 1_000
# Others may store, or note, heights of the same bucket in the same moment.
_TRIES = 20

# Heights a piece. Pieces never cross a bucket of the coverage.
PIECE_HEIGHTS = 1_000

_DATASETS: tuple[Dataset, ...] = ("blocks", "events")


class Piece(NamedTuple):
    """Some heights of one bucket, in order."""

    ranges: tuple[BlockRange, ...]

    @property
    def first(self) -> int:
        """The lowest height."""
        return self.ranges[0].first

    @property
    def last(self) -> int:
        """The highest height."""
        return self.ranges[-1].last

    def __len__(self) -> int:
        """Return how many heights it has."""
        return sum(map(len, self.ranges))


def pieces(heights: Sequence[BlockRange]) -> Iterator[Piece]:
    """Cut heights into pieces."""
    gathered: list[BlockRange] = []
    size = 0
    for run in (part for each in heights for part in split(each, PIECE_HEIGHTS)):
        other = gathered and (
            gathered[0].first // BUCKET_HEIGHTS != run.first // BUCKET_HEIGHTS
        )
        if other or size + len(run) > PIECE_HEIGHTS:
            yield Piece(tuple(gathered))
            gathered, size = [], 0
        gathered.append(run)
        size += len(run)
    if gathered:
        yield Piece(tuple(gathered))


class Auditor:
    """Looks at pieces, one after the other, on one connection."""

    def __init__(self, conn: Connection, profile: Profile) -> None:
        """``conn`` is in autocommit; each chunk is a transaction of its own."""
        self._conn = conn
        self._profile = profile
        self._size = _FIRST_CHUNK

    async def look_at(self, piece: Piece) -> Found:
        """Return what is found in a piece, and correct what is noted of it.

        Raises psycopg's errors where the database fails.
        """
        found = Found()
        for run in piece.ranges:
            first = run.first
            while first <= run.last:
                chunk = BlockRange(first, min(run.last, first + self._size - 1))
                part = await self._chunk(chunk)
                found.add(part)
                found.tops.extend(part.tops)
                self._learn(len(chunk), part.rows)
                first = chunk.last + 1
        return found

    def _learn(self, heights: int, rows: int) -> None:
        fitting = _ROWS_A_CHUNK * heights // max(rows, heights)
        self._size = max(1, min(fitting, 4 * self._size, _LARGEST_CHUNK))

    async def _chunk(self, chunk: BlockRange) -> Found:
        for attempt in range(1, _TRIES + 1):
            try:
                return await self._chunk_once(chunk)
            except (pg.SerializationFailure, pg.DeadlockDetected, pg.UniqueViolation):
                if attempt == _TRIES:
                    raise
                await asyncio.sleep(0.01 * attempt)
        raise AssertionError("the last try returns or raises")

    async def _chunk_once(self, chunk: BlockRange) -> Found:
        conn = self._conn
        async with conn.transaction():
            await begin_snapshot(conn)
            await set_local_timeouts(conn)
            rows = await read_rows(conn, chunk)
            below = None
            if chunk.first > 0:
                below = await stored.block_hash(conn, chunk.first - 1)
            examination = Examination(self._profile)
            examination.look_at(
                rows, None if below is None else (chunk.first - 1, below)
            )
            await self._settle_queued(chunk, examination)
            await self._correct(chunk, examination)
        examination.tally()
        return examination.found

    async def _settle_queued(self, chunk: BlockRange, found: Examination) -> None:
        """Tell what waits for a job from what is wrong."""
        absent = runs(found.absent)
        if not absent and not found.orphans:
            return
        queued = await jobs_over(self._conn, chunk)
        alive = [each for each in queued if each.status != "failed"]
        found.name_orphans([each.blocks for each in alive if each.kind == INDEX_BLOCKS])
        failed = [each for each in queued if each.status == "failed"]
        _name_absent(found, absent, [each.blocks for each in alive], failed)

    async def _correct(self, chunk: BlockRange, found: Examination) -> None:
        """Note what was found, where it is not what was noted."""
        suspect = [
            fault.first
            for fault in found.found.faults
            if fault.kind is FaultKind.BROKEN_LINK
        ]
        for dataset in _DATASETS:
            before = await coverage.noted(self._conn, dataset=dataset, blocks=chunk)
            if dataset == "blocks" and found.left_out():
                found.name_left_out(
                    elsewhere=await coverage.any_proven(self._conn, dataset=dataset)
                )
            found.doubt(dataset, union([*before.proven, *before.wrong]))
            proven = runs(found.proven[dataset])
            now = Noted(
                runs(found.stored[dataset]),
                difference(proven, runs(suspect)),
                runs(found.unprovable[dataset]),
                union(runs(found.wrong[dataset]) + intersection(proven, runs(suspect))),
            )
            if now == before:
                continue
            await coverage.correct(self._conn, dataset=dataset, blocks=chunk, found=now)
            if dataset == "blocks":
                await self._keep_wanted(difference(before.stored, now.stored))

    async def _keep_wanted(self, lost: list[BlockRange]) -> None:
        """Have what was stored and is gone stay wanted, whoever stored it.

        The follower's blocks are in no plan: without the note of having been stored
        nothing would tell a hole from heights that nobody asked for.
        """
        for run in difference(lost, await chain.planned(self._conn) if lost else []):
            await chain.record_plan(
                self._conn, blocks=run, range_size=len(run), jobs_queued=0
            )


def _name_absent(
    found: Examination,
    absent: list[BlockRange],
    alive: list[BlockRange],
    failed: list[Queued],
) -> None:
    """Count heights without their events: what is queued waits, the rest is wrong."""
    tally = found.found.events
    tally.looked_at += count(absent)
    tally.waiting += count(intersection(absent, alive))
    for run in difference(absent, alive):
        found.wrong["events"] += run.heights()
        why = "no job is queued for them"
        for job in failed:
            if intersection([run], [job.blocks]):
                why = f"job {job.id} for them failed: {job.last_error}"
        found.found.faults.append(
            Fault(
                FaultKind.MISSING_EVENTS,
                run.first,
                run.last,
                f"the block is stored without its receipts and logs, and {why}",
            )
        )
