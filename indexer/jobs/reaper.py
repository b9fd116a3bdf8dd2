"""The reaper: the only one who takes a claim away."""

from __future__ import annotations

import logging
from datetime import timedelta
from time import monotonic
from typing import NamedTuple

from indexer.db.committed import rows_committed
from indexer.db.connection import Connection
from indexer.db.queries import load

_LOG = logging.getLogger(__name__)

_QUERIES = load("jobs")
_REAP = _QUERIES["reap_jobs"]
_LAPSED = _QUERIES["lapsed_claims"]
_END_SILENT_COPIES = _QUERIES["end_silent_copies"]

# A whole fleet's restart is taken back in steps: a step of 500 rows is about 200 KB of
# WAL, and other claims and completions get their turn in between.
BATCH = 500


class Reaped(NamedTuple):
    """A job that was taken back; ``status`` is pending or failed."""

    job_id: int
    kind: str
    status: str
    lost_leases: int


async def reap(
    conn: Connection,
    *,
    lease: timedelta,
    max_lost_leases: int,
    batch: int = BATCH,
) -> list[Reaped]:
    """Take back every claim whose lease is over, batch by batch; return the jobs.

    Each batch is one statement, committed at once (``conn`` is in autocommit). They
    are pending again after the same backoff as an error, and failed with a reason
    after ``max_lost_leases``. Within one ``lease`` of the server's start none is
    taken: while it was down nobody could renew.
    """
    reaped: list[Reaped] = []
    while True:
        rows = await rows_committed(
            conn, _REAP, lease=lease, batch=batch, max_lost_leases=max_lost_leases
        )
        reaped += [Reaped(*row) for row in rows]
        if len(rows) < batch:
            break
    for each in reaped:
        _LOG.warning(
            "job %s (%s) lost its lease (%s so far), now %s",
            each.job_id,
            each.kind,
            each.lost_leases,
            each.status,
        )
    return reaped


async def lapsed_claims(conn: Connection) -> int:
    """Count the claims that are past their lease."""
    row = await _LAPSED.row(conn)
    return 0 if row is None else int(row[0])


async def end_silent_copies(conn: Connection, *, silence: timedelta) -> int:
    """End our own COPYs that have waited for their client for so long; count them.

    They hold the row of their claim, which the reaper steps past. Chunks are sized to
    take a second; one that was only slow is written again, at no cost of an attempt.
    """
    schema = conn.schema.replace('"', '""')
    straight = f'copy "{_plain(schema)}".%'
    ended = await _END_SILENT_COPIES.rows(conn, silence=silence, straight=straight)
    for pid, seconds in ended:
        _LOG.warning(
            "ended a COPY that had waited for its client for %.1f s (pid %s): its "
            "process is stopped or cut off",
            seconds,
            pid,
        )
    return len(ended)


def _plain(text: str) -> str:
    """Return text that LIKE takes as it stands."""
    for special in ("\\", "%", "_"):
        text = text.replace(special, f"\\{special}")
    return text


class Reaper:
    """Reaps, but not within one lease of having been cut off from the database."""

    def __init__(self, *, lease: timedelta, max_lost_leases: int) -> None:
        self._lease = lease
        self._max_lost_leases = max_lost_leases
        self._not_before = 0.0

    def hold(self) -> None:
        """Wait a lease: the database was out of reach, and maybe not for us alone."""
        self._not_before = monotonic() + self._lease.total_seconds()

    @property
    def is_held(self) -> bool:
        """Whether it would leave everything alone now."""
        return monotonic() < self._not_before

    async def tick(self, conn: Connection) -> list[Reaped]:
        """Do one pass; return what was taken back."""
        if self.is_held:
            return []
        await end_silent_copies(conn, silence=self._lease)
        return await reap(
            conn, lease=self._lease, max_lost_leases=self._max_lost_leases
        )
