"""An audit from its beginning, or from where it was left, to its report."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import msgspec
from psycopg.types.multirange import Multirange

from indexer import __version__
from indexer.chain.endpoints import Endpoints
from indexer.chain.verify import Commitment
from indexer.db.connection import Database
from indexer.db.queries import load
from indexer.ranges import BlockRange, count
from indexer.services.verify.crew import Place, look_at_all
from indexer.services.verify.extent import (
    Extent,
    find_extent,
    find_missing,
    sampled,
)
from indexer.services.verify.faults import Found, joined
from indexer.services.verify.nodes import Comparison
from indexer.services.verify.piece import Piece, pieces
from indexer.services.verify.profile import stored_profile
from indexer.services.verify.report import NOT_COMMITTED, Report
from indexer.store import chain, coverage
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

    ``sample`` is how many blocks, drawn by ``seed``; None is every one.
    """

    first: int | None = None
    end: int | None = None
    sample: int | None = None
    seed: int | None = None


class Progress(NamedTuple):
    """How far it is; ``resumed`` of ``done`` were looked at before this run."""

    done: int
    total: int
    resumed: int
    faults: int
    seconds: float

    @property
    def rate(self) -> float:
        """Blocks a second in this run."""
        return (self.done - self.resumed) / self.seconds if self.seconds else 0.0

    @property
    def eta_seconds(self) -> float:
        """How long the rest takes at that rate."""
        return (self.total - self.done) / self.rate if self.rate else 0.0


class _Noted(msgspec.Struct):
    """A piece and what was found in it, as it is kept."""

    first: int
    last: int
    found: Found


class _Audit(NamedTuple):
    """A row of ``audits``."""

    id: int
    seed: int
    extent: Extent
    started_at: datetime


async def audit(
    database: Database,
    asked: Asked,
    *,
    endpoints: Endpoints | None = None,
    processes: int = 1,
    restart: bool = False,
    tell: Callable[[Progress], None] = lambda _: None,
) -> Report:
    """Look at every row there is, or a sample; return what was found.

    An audit of the same question that was interrupted is gone on with, unless
    ``restart``. Coverage is corrected on the way. Raises DatabaseUnavailable and
    what else a database does; what was looked at by then is kept.
    """
    began = time.monotonic()
    kept = await _begin_or_go_on(
        database, asked, with_node=endpoints is not None, restart=restart
    )
    profile = await stored_profile(database, kept.extent.looked_at)
    async with database.connection() as conn:
        identity = await chain.identity(conn)
    place = Place(
        database.url,
        database.schema,
        bool(database.prepared),
        None if identity is None else identity.chain_id,
        profile.name,
    )
    comparison = None if endpoints is None else Comparison(database, endpoints)
    run = _Run(database, kept, comparison, tell)
    await run.look(place, processes=processes)
    missing, waiting = await find_missing(database, kept.extent.wanted)
    report = Report(
        version=__version__,
        audit=kept.id,
        schema=database.schema,
        chain_id=None if identity is None else str(identity.chain_id),
        genesis_hash=None if identity is None else "0x" + identity.genesis_hash.hex(),
        profile=profile.name,
        provable=[each for each in Commitment if each in profile.proves],
        wanted=kept.extent.wanted,
        sample=None if asked.sample is None else count(kept.extent.looked_at),
        seed=kept.seed,
        started_at=kept.started_at,
        finished_at=None,
        seconds=time.monotonic() - began,
        blocks=run.found.blocks,
        events=run.found.events,
        rows=run.found.rows,
        waiting_blocks=waiting,
        not_provable=run.found.reasons,
        not_committed=NOT_COMMITTED,
        against=None if comparison is None else comparison.result(),
        faults=joined(run.found.faults + missing),
    )
    await _end(database, asked, kept, report)
    return report


class _Run:
    """The pieces of an audit: those that were looked at before, and the others."""

    def __init__(
        self,
        database: Database,
        kept: _Audit,
        comparison: Comparison | None,
        tell: Callable[[Progress], None],
    ) -> None:
        self.found = Found()
        self._database = database
        self._kept = kept
        self._comparison = comparison
        self._tell = tell
        self._began = time.monotonic()
        self._total = count(kept.extent.looked_at)
        self._done = self._resumed = 0

    async def look(self, place: Place, *, processes: int) -> None:
        """Look at all pieces that are left."""
        async with self._database.connection() as conn:
            rows = await _PIECES.rows(conn, audit_id=self._kept.id)
        noted = [msgspec.json.decode(row[0], type=_Noted) for row in rows]
        known = {(each.first, each.last): each.found for each in noted}
        left = []
        for piece in pieces(self._kept.extent.looked_at):
            before = known.get((piece.first, piece.last))
            if before is None:
                left.append(piece)
            else:
                self._resumed += len(piece)
                self._take(piece, before)
        async for piece, part in look_at_all(
            self._database, place, left, processes=processes
        ):
            if self._comparison is not None:
                part.faults += await self._comparison.compare(piece, part.tops)
            part.tops.clear()
            await self._note(piece, part)
            self._take(piece, part)

    def _take(self, piece: Piece, part: Found) -> None:
        self.found.add(part)
        self._done += len(piece)
        self._tell(
            Progress(
                self._done,
                self._total,
                self._resumed,
                len(self.found.faults),
                time.monotonic() - self._began,
            )
        )

    async def _note(self, piece: Piece, part: Found) -> None:
        noted = _Noted(piece.first, piece.last, part)
        async with self._database.connection() as conn:
            await _NOTE_PIECE.run(
                conn,
                audit_id=self._kept.id,
                first=piece.first,
                last=piece.last,
                found=msgspec.json.encode(noted).decode(),
            )


async def _begin_or_go_on(
    database: Database, asked: Asked, *, with_node: bool, restart: bool
) -> _Audit:
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
    return _Audit(row[0], row[1], Extent(_ranges(row[3]), _ranges(row[2])), row[4])


def _ranges(value: Multirange[int]) -> list[BlockRange]:
    return [BlockRange(each.lower or 0, (each.upper or 0) - 1) for each in value]


async def _end(database: Database, asked: Asked, kept: _Audit, report: Report) -> None:
    """Keep the report, and note the buckets that were looked at whole."""
    async with database.connection() as conn:
        if asked.sample is None:
            await coverage.mark_audited(conn, buckets=_whole_buckets(asked, kept))
        report.sign()
        row = await _END.row(conn, audit_id=kept.id, report=report.as_json().decode())
    report.finished_at = row[0] if row is not None else None
    report.sign()


def _whole_buckets(asked: Asked, kept: _Audit) -> set[int]:
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
