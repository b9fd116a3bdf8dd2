"""The heartbeat: one thread that renews all claims of a worker.

A thread and a connection of its own, so that neither a handler that blocks the event
loop nor a pool without a free connection starves it. A heartbeat that fails says
nothing about the claims: it is tried again, and only the database's answer that a
claim is not there any more is a loss.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from random import Random
from time import monotonic
from typing import NamedTuple
from uuid import UUID

import psycopg

from indexer.backoff import delay_seconds
from indexer.db.committed import rows_committed_sync
from indexer.db.connection import SyncConnection, connect_sync
from indexer.db.queries import load
from indexer.errors import IndexerError
from indexer.jobs.job import Job
from indexer.jobs.workers import Identity

_LOG = logging.getLogger(__name__)

_HEARTBEAT = load("jobs")["heartbeat_jobs"]
_SEE = load("workers")["see_worker"]

# An answer that took longer than this is not waited for: the connection is made anew.
_LONGEST_REPLY_SECONDS = 10.0


class Beat(NamedTuple):
    """What one heartbeat, or its absence, says of a worker's claims.

    Each is a set of (job id, token). ``lost``: the database knows no such claim.
    ``cancelled`` and ``overdue``: their jobs are to end. ``lapsed``: by our own clock
    the lease is over and nobody has answered; it may or may not still be ours.
    """

    lost: frozenset[tuple[int, UUID]] = frozenset()
    cancelled: frozenset[tuple[int, UUID]] = frozenset()
    overdue: frozenset[tuple[int, UUID]] = frozenset()
    lapsed: frozenset[tuple[int, UUID]] = frozenset()
    failed: bool = False


class HeartbeatThread:
    """Renews claims every ``interval`` until it is stopped.

    ``tell`` is called in this thread with every :class:`Beat` that says something;
    it must only hand it over.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str,
        identity: Identity,
        lease: timedelta,
        interval: timedelta,
        tell: Callable[[Beat], None],
        prepared: bool = True,
        random: Random | None = None,
    ) -> None:
        self._url = url
        self._schema = schema
        self._identity = identity
        self._lease = lease
        self._interval = interval.total_seconds()
        self._tell = tell
        self._prepared = prepared
        self._random = random if random is not None else Random()
        self._lock = threading.Lock()
        self._renewed: dict[tuple[int, UUID], float] = {}
        self._stop = threading.Event()
        self._answered_at = monotonic()
        self._conn: SyncConnection | None = None
        self._thread = threading.Thread(
            target=self._run, name="indexer-heartbeat", daemon=True
        )

    def start(self) -> None:
        """Begin to beat, the first time at once (it registers the worker)."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Stop beating and wait for the thread; blocks for at most ``timeout``."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    @property
    def age_seconds(self) -> float:
        """How long ago the last heartbeat was answered."""
        return monotonic() - self._answered_at

    def add(self, job_id: int, token: UUID, *, sent_at: float) -> None:
        """Renew a claim from now on.

        ``sent_at`` is the monotonic time at which the claim was SENT: counting from
        the answer would trust a late one.
        """
        with self._lock:
            self._renewed[job_id, token] = sent_at

    def add_all(self, jobs: Iterable[Job], *, sent_at: float) -> None:
        """Renew the claims of jobs from now on."""
        with self._lock:
            for job in jobs:
                self._renewed[job.id, job.claim_token] = sent_at

    def renewed(self, job_id: int, token: UUID, *, sent_at: float) -> None:
        """Note that a fence sent at ``sent_at`` renewed the claim."""
        self._note_renewed({(job_id, token)}, sent_at)

    def remove(self, job_id: int, token: UUID) -> None:
        """Leave a claim alone."""
        with self._lock:
            self._renewed.pop((job_id, token), None)

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            try:
                beat = self._beat()
                failures = 0
                self._answered_at = monotonic()
            except (psycopg.Error, IndexerError, OSError) as error:
                self._complain(failures, error)
                self._disconnect()
                failures += 1
                beat = Beat(failed=True)
            except Exception:  # noqa: BLE001 - logged with its traceback
                # No loop of ours dies of an exception; this one least of all.
                _LOG.exception("heartbeat: unexpected error")
                self._disconnect()
                failures += 1
                beat = Beat(failed=True)
            self._report(beat)
            self._stop.wait(self._pause(failures))
        self._disconnect()

    def _pause(self, failures: int) -> float:
        if failures == 0:
            return self._interval * self._random.uniform(0.9, 1.0)
        return delay_seconds(
            failures - 1, base=0.25, cap=self._interval, random=self._random
        )

    def _beat(self) -> Beat:
        conn = self._connection()
        with self._lock:
            claims = list(self._renewed)
        sent_at = monotonic()
        rows = rows_committed_sync(
            conn,
            _HEARTBEAT,
            ids=[job_id for job_id, _ in claims],
            tokens=[token for _, token in claims],
            lease=self._lease,
        )
        self._note_renewed({(row[0], row[1]) for row in rows if row[3]}, sent_at)
        # After the claims, which matter more, and without keeping them locked.
        rows_committed_sync(conn, _SEE, **self._identity.parameters())
        return Beat(
            lost=frozenset((row[0], row[1]) for row in rows if not row[2]),
            cancelled=frozenset((row[0], row[1]) for row in rows if row[4]),
            overdue=frozenset((row[0], row[1]) for row in rows if row[5]),
        )

    def _note_renewed(self, renewed: set[tuple[int, UUID]], sent_at: float) -> None:
        with self._lock:
            for claim in renewed & self._renewed.keys():
                self._renewed[claim] = max(self._renewed[claim], sent_at)

    def _report(self, beat: Beat) -> None:
        limit = monotonic() - self._lease.total_seconds()
        with self._lock:
            lapsed = frozenset(
                claim for claim, sent_at in self._renewed.items() if sent_at < limit
            )
        beat = beat._replace(lapsed=lapsed - beat.lost)
        if any(beat):
            self._tell(beat)

    def _connection(self) -> SyncConnection:
        if self._conn is None:
            conn = connect_sync(
                self._url,
                schema=self._schema,
                application="indexer heartbeat",
                prepared=self._prepared,
            )
            conn.reply_timeout = min(_LONGEST_REPLY_SECONDS, max(1.0, self._interval))
            self._conn = conn
        return self._conn

    def _disconnect(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _complain(self, failures: int, error: Exception) -> None:
        if failures == 0:
            _LOG.warning("heartbeat failed, trying again: %s", error)
        else:
            _LOG.debug("heartbeat failed again: %s", error)
