"""What the queue did within the last hour, without reading all of its history."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from indexer.db.connection import Connection
from indexer.db.queries import load

_QUERIES = load("status")
_DAYS = _QUERIES["history_days_lately"]
_FINISHED = _QUERIES["finished_lately"]
_TROUBLED = _QUERIES["troubled_lately"]

# Over how long work is looked at for the rate: enough jobs to be even, and recent.
RATE_WINDOW = timedelta(minutes=15)

# The end of history that is read for durations and rates, a day: some 20,000 jobs.
_HISTORY_PAGES = 512


class Finished(NamedTuple):
    """Jobs of one kind that finished within the last hour; times in seconds.

    ``heights`` were done within the window of ``heights_seconds``.
    """

    done: int = 0
    ended: int = 0
    median: float | None = None
    longest: float | None = None
    errors: int = 0
    lost: int = 0
    heights: float = 0.0
    heights_seconds: float = 0.0


class Trouble(NamedTuple):
    """Unfinished jobs of a kind that met each within the last hour."""

    erred: int
    lost: int
    failed: int


class Lately(NamedTuple):
    """The last hour. ``seconds`` is how much of it was looked at."""

    kinds: dict[str, Finished]
    troubled: dict[str, Trouble]
    seconds: float

    @property
    def estimated(self) -> bool:
        """Whether more happened than was looked at, so that counts are scaled."""
        return self.seconds < 3600.0

    @property
    def scale(self) -> float:
        """From what was looked at to an hour."""
        return 3600.0 / self.seconds


async def read_lately(conn: Connection) -> Lately:
    """Read what the queue did within the last hour, without reading all of history."""
    kinds: dict[str, Finished] = {}
    seconds = 3600.0
    for day, page in await _DAYS.rows(conn, schema=conn.schema, pages=_HISTORY_PAGES):
        rows = await _FINISHED.rows(
            conn, day=day, start=f"({page},0)", window=RATE_WINDOW
        )
        for kind, done, ended, median, longest, errors, lost, since, *work in rows:
            kinds[kind] = _together(
                kinds.get(kind, Finished()),
                Finished(done, ended, median, longest, errors, lost, *work),
            )
            if page and since is not None:
                seconds = min(seconds, max(since, 1.0))
    troubled = {kind: Trouble(*row) for kind, *row in await _TROUBLED.rows(conn)}
    return Lately(kinds, troubled, seconds)


def _together(before: Finished, after: Finished) -> Finished:
    return Finished(
        done=before.done + after.done,
        ended=before.ended + after.ended,
        # The median of the busier day stands for both sides of midnight.
        median=before.median if before.done > after.done else after.median,
        longest=max((x.longest for x in (before, after) if x.longest), default=None),
        errors=before.errors + after.errors,
        lost=before.lost + after.lost,
        heights=before.heights + after.heights,
        heights_seconds=max(before.heights_seconds, after.heights_seconds),
    )
