"""What is kept of an audit, so that it can be gone on with, and its report."""

from __future__ import annotations

import json
import logging
import secrets
from datetime import datetime
from typing import NamedTuple

import msgspec
from psycopg.types.multirange import Multirange

from indexer.db.connection import Database
from indexer.db.queries import load
from indexer.ranges import BlockRange
from indexer.services.verify.extent import Extent, find_extent, sampled
from indexer.services.verify.faults import Found
from indexer.services.verify.piece import Piece
from indexer.services.verify.report import Report
from indexer.store import coverage
from indexer.store.coverage import BUCKET_HEIGHTS

_QUERIES = load("verify")
_UNFINISHED = _QUERIES["unfinished_audit"]
_BEGIN = _QUERIES["begin_audit"]
_NOTE_PIECE = _QUERIES["note_piece"]
_PIECES = _QUERIES["noted_pieces"]
_END = _QUERIES["end_audit"]
_DROP = _QUERIES["drop_audits"]

log = logging.getLogger(__name__)


class Asked(NamedTuple):
    """What is to be looked at: ``first`` up to ``end``, not included; None is all.

    ``sample`` is how many blocks, drawn by ``seed``; None is every one. ``every_field``
    is whether a node is asked for the blocks themselves, not their hashes alone.
    """

    first: int | None = None
    end: int | None = None
    sample: int | None = None
    seed: int | None = None
    every_field: bool = False


class _Noted(msgspec.Struct):
    """A piece and what was found in it, as it is kept."""

    first: int
    last: int
    found: Found


class Kept(NamedTuple):
    """A row of ``audits``."""

    id: int
    seed: int
    extent: Extent
    started_at: datetime


async def begin_or_go_on(
    database: Database, asked: Asked, *, with_node: bool, restart: bool
) -> Kept:
    """Return the unfinished audit of the same question, or a new one."""
    question = json.dumps({**asked._asdict(), "node": with_node})
    async with database.connection() as conn:
        if restart:
            await _DROP.run(conn, asked=question)
        row = await _UNFINISHED.row(conn, asked=question)
    if row is None:
        extent = await find_extent(database, first=asked.first, end=asked.end)
        seed = secrets.randbits(32) if asked.seed is None else asked.seed
        looked_at = extent.looked_at
        if asked.sample is not None:
            looked_at = sampled(looked_at, size=asked.sample, seed=seed)
        async with database.connection() as conn:
            row = await _BEGIN.row(
                conn,
                asked=question,
                seed=seed,
                looked_at=coverage.multirange(looked_at),
                wanted=coverage.multirange(extent.wanted),
            )
    else:
        log.info("going on with audit %d, which was begun at %s", row[0], row[4])
    assert row is not None, "INSERT … RETURNING gives its row"
    return Kept(row[0], row[1], Extent(_ranges(row[3]), _ranges(row[2])), row[4])


async def noted(database: Database, kept: Kept) -> dict[tuple[int, int], Found]:
    """Return what was found so far, by the ends of the pieces."""
    async with database.connection() as conn:
        rows = await _PIECES.rows(conn, audit_id=kept.id)
    pieces = [msgspec.json.decode(row[0], type=_Noted) for row in rows]
    return {(each.first, each.last): each.found for each in pieces}


async def note(database: Database, kept: Kept, piece: Piece, found: Found) -> None:
    """Keep what was found in a piece."""
    noted = _Noted(piece.first, piece.last, found)
    async with database.connection() as conn:
        await _NOTE_PIECE.run(
            conn,
            audit_id=kept.id,
            first=piece.first,
            last=piece.last,
            found=msgspec.json.encode(noted).decode(),
        )


def _ranges(value: Multirange[int]) -> list[BlockRange]:
    return [BlockRange(each.lower or 0, (each.upper or 0) - 1) for each in value]


async def end(database: Database, asked: Asked, kept: Kept, report: Report) -> None:
    """Keep the report, and note the buckets that were looked at whole."""
    async with database.connection() as conn:
        if asked.sample is None:
            await coverage.mark_audited(conn, buckets=_whole_buckets(asked, kept))
        report.sign()
        row = await _END.row(conn, audit_id=kept.id, report=report.as_json().decode())
    report.finished_at = row[0] if row is not None else None
    report.sign()


def _whole_buckets(asked: Asked, kept: Kept) -> set[int]:
    """Return the buckets that no height was left out of."""
    buckets: set[int] = set()
    for run in kept.extent.looked_at:
        first, last = run.first // BUCKET_HEIGHTS, run.last // BUCKET_HEIGHTS
        buckets.update(range(first, last + 1))
    low = -1 if asked.first is None else asked.first
    return {
        each
        for each in buckets
        if low <= each * BUCKET_HEIGHTS
        and (asked.end is None or (each + 1) * BUCKET_HEIGHTS <= asked.end)
    }
