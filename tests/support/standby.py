"""A standby that receives WAL and says of itself what a test wants."""

from __future__ import annotations

import struct
import time
from types import TracebackType
from typing import Self

import psycopg
from psycopg.pq import ExecStatus

# Times in the protocol count from here.
_EPOCH_2000 = 946_684_800


class Standby:
    """Speaks the streaming replication protocol, but applies nothing."""

    def __init__(self, url: str, *, name: str, slot: str | None = None) -> None:
        self._conn = psycopg.Connection.connect(
            url, autocommit=True, replication="true", application_name=name
        )
        where = f"SLOT {slot} " if slot else ""
        row = self._conn.pgconn.exec_(b"IDENTIFY_SYSTEM")
        start = row.get_value(0, 2) or b"0/0"
        started = self._conn.pgconn.exec_(
            b"START_REPLICATION " + where.encode() + b"PHYSICAL " + start
        )
        assert started.status == ExecStatus.COPY_BOTH, started.error_message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._conn.close()

    def replayed(self, position: int) -> None:
        """Say that WAL was written, flushed and replayed up to a position."""
        self._send(struct.pack("!cQQQqB", b"r", position, position, position, now(), 0))

    def holds(self, transaction: int) -> None:
        """Say that a query here needs rows that this transaction still saw."""
        self._send(struct.pack("!cqIIII", b"h", now(), transaction, 0, 0, 0))

    def _send(self, message: bytes) -> None:
        self._conn.pgconn.put_copy_data(message)
        self._conn.pgconn.flush()


def now() -> int:
    """Return the time as the protocol has it, in microseconds."""
    return int((time.time() - _EPOCH_2000) * 1_000_000)
