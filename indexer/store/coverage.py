"""What is stored, in few rows: one a dataset and bucket of heights.

Kept in the same transaction as the data. A bucket's row holds multiranges, so noting
the same range twice changes nothing, and jobs cut at the same multiples do not meet.
"""

from __future__ import annotations

from typing import Literal

from indexer.db.connection import Connection
from indexer.db.queries import load
from indexer.ranges import BlockRange

Dataset = Literal["blocks", "events"]

BUCKET_HEIGHTS = 10_000

_QUERIES = load("coverage")
_EXTEND = _QUERIES["extend_coverage"]
_COVERED = _QUERIES["covered_ranges"]


async def extend(conn: Connection, *, dataset: Dataset, blocks: BlockRange) -> None:
    """Note heights as stored, in the caller's transaction and as its last write."""
    await _EXTEND.run(
        conn,
        dataset=dataset,
        first=blocks.first,
        last=blocks.last,
        size=BUCKET_HEIGHTS,
    )


async def covered(conn: Connection, *, dataset: Dataset) -> list[BlockRange]:
    """Return the noted heights as disjoint ranges, in order."""
    rows = await _COVERED.rows(conn, dataset=dataset)
    return [BlockRange(first, last) for first, last in rows]
