"""Single connections to PostgreSQL: how they are made, and how long they wait.

Connections are in autocommit: a statement of its own is committed at once. Nothing here
leaves session state behind, so a transaction-mode pooler may stand in between.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import monotonic

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from indexer.db.failures import translated
from indexer.errors import ConfigError
from indexer.log import redact_url

# A half-open connection is noticed within about half a minute rather than after the
# kernel's two hours; what the user's own URL says wins.
_NETWORK: dict[str, str] = {
    "connect_timeout": "10",
    "keepalives": "1",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "target_session_attrs": "read-write",
}

# Wins over the URL, the environment and the role: with another one, a single character
# that it lacks in a job of somebody's makes every claim fail.
_ENCODING = {"client_encoding": "UTF8"}

# Where the network is silent as well, nobody hears the cancel request.
_CANCEL_SECONDS = 1.0

# Told of each COPY: the table, how many rows, how many bytes were sent.
Copied = Callable[[str, int, int], None]


class NoAnswer(psycopg.OperationalError):
    """A connection is open but silent."""


class Connection(psycopg.AsyncConnection[TupleRow]):
    """An autocommit connection; ``schema`` is the chain's schema.

    ``reply_timeout`` in seconds bounds how long one answer is waited for: behind a
    proxy that acknowledges and forgets, neither keepalives nor the server's own
    timeouts end a wait. A connection that gave none in time is closed, and the server
    told to give up: what waits there for a lock does not notice, and each try would
    leave one more session behind it.
    """

    schema: str = "indexer"
    default_isolation: str | None = None
    proven_at: float = 0.0
    reply_timeout: float | None = None
    on_copied: Copied | None = None

    async def wait(
        self,
        gen: PQGen[RV],
        interval: float = 0.1,
        timeout: float | None = None,  # noqa: ASYNC109 - psycopg's signature
    ) -> RV:
        """Wait for an answer; raise NoAnswer when it takes too long."""
        if timeout is not None:
            return await super().wait(gen, interval, timeout)
        if self.reply_timeout is None:
            return await super().wait(gen, interval)
        try:
            return await super().wait(_bounded(gen, self.reply_timeout), interval)
        except NoAnswer:
            with suppress(psycopg.Error, OSError):
                await self.cancel_safe(timeout=_CANCEL_SECONDS)
            self.pgconn.finish()
            raise


class SyncConnection(psycopg.Connection[TupleRow]):
    """The same for a thread (the heartbeat's)."""

    schema: str = "indexer"
    default_isolation: str | None = None
    reply_timeout: float | None = None

    def wait(
        self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None
    ) -> RV:
        """Wait for an answer; raise NoAnswer when it takes too long."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        if self.reply_timeout is None:
            return super().wait(gen, interval)
        try:
            return super().wait(_bounded(gen, self.reply_timeout), interval)
        except NoAnswer:
            with suppress(psycopg.Error, OSError):
                self.cancel_safe(timeout=_CANCEL_SECONDS)
            self.pgconn.finish()
            raise


def _bounded(gen: PQGen[RV], seconds: float) -> PQGen[RV]:
    end = monotonic() + seconds
    try:
        wanted = next(gen)
        while True:
            # psycopg resumes it at every interval, with data or without.
            wanted = gen.send((yield wanted))
            if monotonic() > end:
                raise NoAnswer(f"no answer within {seconds:g} s")
    except StopIteration as stop:
        result: RV = stop.value
        return result


def conninfo(url: str, *, application: str) -> str:
    """Return a connection string: our parameters, overridden by what the URL says.

    Raises ConfigError where the URL is none.
    """
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # What cannot be read cannot be cleaned of its password either.
        raise ConfigError(
            "--database-url (or --listen-url) is not one PostgreSQL understands; it "
            "looks like postgresql://host:5432/database?user=name"
        ) from None
    ours = {**_NETWORK, "application_name": application}
    return make_conninfo("", **{**ours, **given, **_ENCODING})


async def connect(
    url: str, *, schema: str, application: str = "indexer", prepared: bool = True
) -> Connection:
    """Open one connection of its own.

    Raises ConfigError for an unusable URL, DatabaseUnavailable where nobody answers.
    """
    info = conninfo(url, application=application)
    with translated(f"connecting to {redact_url(url)}"):
        conn = await Connection.connect(
            info, autocommit=True, prepare_threshold=5 if prepared else None
        )
    await configure(conn, schema=schema)
    return conn


def connect_sync(
    url: str, *, schema: str, application: str = "indexer", prepared: bool = True
) -> SyncConnection:
    """Open one blocking connection, for a thread of its own."""
    info = conninfo(url, application=application)
    with translated(f"connecting to {redact_url(url)}"):
        conn = SyncConnection.connect(
            info, autocommit=True, prepare_threshold=5 if prepared else None
        )
    conn.schema = schema
    for statement in _unreadable_styles(conn):
        conn.execute(statement)
    return conn


async def behind_pooler(conn: Connection) -> bool:
    """Tell whether a pooler stands between: it hands out a process id of its own."""
    cursor = await conn.execute(b"select pg_catalog.pg_backend_pid()")
    row = await cursor.fetchone()
    return row is not None and row[0] != conn.info.backend_pid


async def configure(conn: Connection, *, schema: str) -> None:
    """Bind a new connection to its schema, and its transactions to READ COMMITTED."""
    conn.schema = schema
    for statement in _unreadable_styles(conn):
        await conn.execute(statement)
    # Only changes what BEGIN says; nothing is sent and nothing stays in the session.
    await conn.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)


def _unreadable_styles(conn: Connection | SyncConnection) -> list[bytes]:
    """Return what makes the server write times in a way that psycopg can read.

    Almost always nothing. Poolers keep what a server reports, as these, by client.
    """
    dates = conn.info.parameter_status("DateStyle") or "ISO"
    intervals = conn.info.parameter_status("IntervalStyle") or "postgres"
    statements = []
    if not dates.startswith("ISO"):
        statements.append(b"set datestyle = 'ISO'")
    if intervals != "postgres":
        statements.append(b"set intervalstyle = 'postgres'")
    return statements
