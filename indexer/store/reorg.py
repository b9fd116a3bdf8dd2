"""Replace what a reorganisation orphaned, in the caller's transaction.

The caller holds the follower's role and the jobs above the fork: jobs come before
blocks in the one lock order.
"""

from __future__ import annotations

from typing import NamedTuple

from indexer.db.connection import Connection
from indexer.db.queries import load
from indexer.store.blocks import StoredBlock
from indexer.store.coverage import BUCKET_HEIGHTS

_QUERIES = load("reorg")
_TAIL = _QUERIES["stored_tail"]
_LOCK = _QUERIES["lock_blocks_above"]
_DELETE = _QUERIES["delete_above"]
_SUBTRACT = _QUERIES["subtract_coverage_above"]
_RECORD = _QUERIES["record_reorg"]
_NOTE_FINAL = _QUERIES["note_final"]
_FINAL = _QUERIES["final_number"]


class Reorg(NamedTuple):
    """A row of ``reorgs``: the highest block that stayed, and what became of the rest.

    ``depth`` is how many heights below the old tip were replaced, itself included.
    """

    fork: int
    depth: int
    old_tip_hash: bytes
    new_tip_hash: bytes


async def stored_tail(conn: Connection, *, top: int, limit: int) -> list[StoredBlock]:
    """Return up to ``limit`` stored blocks from ``top`` downwards, highest first."""
    return [StoredBlock(*row) for row in await _TAIL.rows(conn, top=top, limit=limit)]


async def lock_above(conn: Connection, *, fork: int) -> list[StoredBlock]:
    """Hold every stored block above the fork; return them, lowest first."""
    return [StoredBlock(*row) for row in await _LOCK.rows(conn, fork=fork)]


async def delete_above(conn: Connection, *, fork: int) -> None:
    """Delete everything above the fork, and what says that it is stored."""
    await _DELETE.run(conn, fork=fork)
    await _SUBTRACT.run(conn, fork=fork, size=BUCKET_HEIGHTS)


async def record(conn: Connection, reorg: Reorg) -> None:
    """Write down what happened."""
    await _RECORD.run(conn, **reorg._asdict())


async def note_final(conn: Connection, *, number: int) -> None:
    """Remember that the stored chain is final up to a height; never goes back."""
    await _NOTE_FINAL.run(conn, number=number)


async def final_number(conn: Connection) -> int | None:
    """Return how far the stored chain was seen final, None where it never was."""
    row = await _FINAL.row(conn)
    return None if row is None or row[0] is None else int(row[0])
