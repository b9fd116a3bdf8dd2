"""What is stored and how far it is proven, a row a dataset and bucket of heights.

Kept in the same transaction as the data. A bucket's row holds multiranges, so noting
the same range twice changes nothing, and jobs cut at the same multiples do not meet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple

from indexer.db.connection import Connection
from indexer.db.queries import load
from indexer.ranges import BlockRange, difference, runs

Dataset = Literal["blocks", "events"]

BUCKET_HEIGHTS = 10_000

_QUERIES = load("coverage")
_EXTEND = _QUERIES["extend_coverage"]
_ANY_PROVEN = _QUERIES["any_proven"]
_COVERED = _QUERIES["covered_ranges"]
_NOTED = _QUERIES["noted_in_bucket"]
_CORRECT = _QUERIES["correct_coverage"]
_SUBTRACT = _QUERIES["subtract_coverage"]
_AUDITED = _QUERIES["mark_audited"]


class Certainty(NamedTuple):
    """Of some heights: which are proven, and which have something that cannot be.

    Heights in neither were not looked at, or not found to be what they should.
    """

    proven: Sequence[BlockRange] = ()
    unprovable: Sequence[BlockRange] = ()

    def without(self, heights: Collection[int]) -> Certainty:
        """Return the same of all heights but some."""
        if not heights:
            return self
        taken = runs(heights)
        return Certainty(
            difference(self.proven, taken), difference(self.unprovable, taken)
        )


NOTHING_CERTAIN = Certainty()


class Noted(NamedTuple):
    """What a bucket's row says, as far as it is about some heights."""

    stored: list[BlockRange]
    proven: list[BlockRange]
    unprovable: list[BlockRange]
    wrong: list[BlockRange]


async def extend(
    conn: Connection,
    *,
    dataset: Dataset,
    blocks: BlockRange,
    certainty: Certainty = NOTHING_CERTAIN,
) -> None:
    """Note heights as stored, in the caller's transaction and as its last write.

    ``certainty`` is of rows that this transaction has written, and of no others.
    """
    await _EXTEND.run(
        conn,
        dataset=dataset,
        first=blocks.first,
        last=blocks.last,
        proven=multirange(certainty.proven),
        unprovable=multirange(certainty.unprovable),
        size=BUCKET_HEIGHTS,
    )


async def covered(conn: Connection, *, dataset: Dataset) -> list[BlockRange]:
    """Return the noted heights as disjoint ranges, in order."""
    rows = await _COVERED.rows(conn, dataset=dataset)
    return [BlockRange(first, last) for first, last in rows]


async def any_proven(conn: Connection, *, dataset: Dataset) -> bool:
    """Return whether anything was ever proven."""
    row = await _ANY_PROVEN.row(conn, dataset=dataset)
    return row is not None and bool(row[0])


async def noted(conn: Connection, *, dataset: Dataset, blocks: BlockRange) -> Noted:
    """Return what is noted of heights, all in one bucket."""
    found = Noted([], [], [], [])
    rows = await _NOTED.rows(
        conn,
        dataset=dataset,
        bucket=blocks.first // BUCKET_HEIGHTS,
        first=blocks.first,
        last=blocks.last,
    )
    for what, first, last in rows:
        ranges: list[BlockRange] = getattr(found, what)
        ranges.append(BlockRange(first, last))
    return found


async def correct(
    conn: Connection, *, dataset: Dataset, blocks: BlockRange, found: Noted
) -> None:
    """Note what was found of heights, all in one bucket, in place of what was noted.

    In a REPEATABLE READ transaction that has read the rows, so that whoever stores
    some of them meanwhile makes this fail and not be wrong.
    """
    await _CORRECT.run(
        conn,
        dataset=dataset,
        bucket=blocks.first // BUCKET_HEIGHTS,
        first=blocks.first,
        last=blocks.last,
        stored=multirange(found.stored),
        proven=multirange(found.proven),
        unprovable=multirange(found.unprovable),
        wrong=multirange(found.wrong),
    )


async def subtract(conn: Connection, *, blocks: BlockRange) -> None:
    """Note that nothing of heights is stored or proven any more."""
    await _SUBTRACT.run(conn, first=blocks.first, last=blocks.last, size=BUCKET_HEIGHTS)


async def mark_audited(conn: Connection, *, buckets: Iterable[int]) -> None:
    """Note that the rows of whole buckets were looked at just now."""
    await _AUDITED.run(conn, buckets=sorted(buckets))


def multirange(ranges: Iterable[BlockRange]) -> str:
    """Return heights as PostgreSQL writes an int8multirange."""
    return "{" + ",".join(f"[{each.first},{each.last + 1})" for each in ranges) + "}"
