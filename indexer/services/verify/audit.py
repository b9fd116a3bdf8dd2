"""An audit from its beginning, or from where it was left, to its report."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from indexer import __version__
from indexer.chain.endpoints import Endpoints
from indexer.chain.verify import Commitment
from indexer.db.connection import Database
from indexer.ranges import count
from indexer.services.verify import record
from indexer.services.verify.crew import Place, look_at_all
from indexer.services.verify.extent import find_missing
from indexer.services.verify.faults import Found, joined
from indexer.services.verify.nodes import Comparison
from indexer.services.verify.piece import Piece, pieces
from indexer.services.verify.profile import stored_profile
from indexer.services.verify.record import Asked, Kept
from indexer.services.verify.report import NOT_COMMITTED, Report
from indexer.store import chain


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
    kept = await record.begin_or_go_on(
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
    comparison = (
        None
        if endpoints is None
        else Comparison(database, endpoints, every_field=asked.every_field)
    )
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
    await record.end(database, asked, kept, report)
    return report


class _Run:
    """The pieces of an audit: those that were looked at before, and the others."""

    def __init__(
        self,
        database: Database,
        kept: Kept,
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
        known = await record.noted(self._database, self._kept)
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
            await record.note(self._database, self._kept, piece, part)
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
