"""Connections to PostgreSQL that know their chain's schema.

Connections are in autocommit: a statement of its own is committed at once, and a
transaction is opened on purpose by :meth:`Database.transaction`. Nothing here leaves
session state behind, so a transaction-mode pooler may stand in between.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from time import monotonic
from types import TracebackType
from typing import Self

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from indexer.db.failures import translated
from indexer.errors import ConfigError, DatabaseUnavailable
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

# A connection that answered this recently is lent without asking it again, which
# would cost every job of a busy worker one more round trip.
_PROVEN_SECONDS = 1.0

STATEMENT_TIMEOUT = timedelta(seconds=60)
IDLE_TIMEOUT = timedelta(seconds=30)
LOCK_TIMEOUT = timedelta(seconds=10)


# Told of each COPY: the table, how many rows, how many bytes were sent.
Copied = Callable[[str, int, int], None]


class Connection(psycopg.AsyncConnection[TupleRow]):
    """An autocommit connection; ``schema`` is the chain's schema."""

    schema: str = "indexer"
    default_isolation: str | None = None
    proven_at: float = 0.0
    on_copied: Copied | None = None


class SyncConnection(psycopg.Connection[TupleRow]):
    """The same for a thread (the heartbeat's).

    ``reply_timeout`` in seconds bounds how long an answer is waited for: behind a
    proxy that acknowledges and forgets, neither keepalives nor the server's own
    timeouts end a wait. The connection must be closed after it struck.
    """

    schema: str = "indexer"
    reply_timeout: float | None = None

    def wait(
        self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None
    ) -> RV:
        """Wait for an answer; raise OperationalError when it takes too long."""
        limit = self.reply_timeout if timeout is None else timeout
        if limit is not None:
            gen = _bounded(gen, limit)
        return super().wait(gen, interval)


def _bounded(gen: PQGen[RV], seconds: float) -> PQGen[RV]:
    end = monotonic() + seconds
    try:
        wanted = next(gen)
        while True:
            # psycopg resumes it at every interval, with data or without.
            wanted = gen.send((yield wanted))
            if monotonic() > end:
                raise psycopg.OperationalError(f"no answer within {seconds:g} s")
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
    return make_conninfo("", **{**ours, **given})


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
    await _configure(conn, schema=schema)
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
    return conn


async def behind_pooler(conn: Connection) -> bool:
    """Tell whether a pooler stands between: it hands out a process id of its own."""
    cursor = await conn.execute(b"select pg_catalog.pg_backend_pid()")
    row = await cursor.fetchone()
    return row is not None and row[0] != conn.info.backend_pid


async def _configure(conn: Connection, *, schema: str) -> None:
    conn.schema = schema
    # Only changes what BEGIN says; nothing is sent and nothing stays in the session.
    await conn.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)


async def _check(conn: Connection) -> None:
    if monotonic() - conn.proven_at > _PROVEN_SECONDS:
        await AsyncConnectionPool.check_connection(conn)
        conn.proven_at = monotonic()


class Database:
    """A pool of connections for one chain's schema."""

    def __init__(
        self,
        url: str,
        *,
        schema: str,
        size: int = 4,
        application: str = "indexer",
        prepared: bool | None = None,
    ) -> None:
        """Remember the settings; :meth:`open` connects.

        ``prepared`` None means: prepare statements unless a pooler is noticed.
        """
        self.url = url
        self._named = redact_url(url)
        self.schema = schema
        self.size = size
        self.application = application
        self.prepared = prepared
        self.on_copied: Copied | None = None
        self._pool: AsyncConnectionPool[Connection] | None = None

    async def open(self) -> None:
        """Connect, so that a wrong URL or a stopped server is said at once."""
        first = await connect(
            self.url, schema=self.schema, application=self.application, prepared=False
        )
        async with first:
            if self.prepared is None:
                self.prepared = not await behind_pooler(first)
        self._pool = AsyncConnectionPool(
            conninfo(self.url, application=self.application),
            connection_class=Connection,
            kwargs={
                "autocommit": True,
                "prepare_threshold": 5 if self.prepared else None,
            },
            min_size=1,
            max_size=self.size,
            configure=self._configure,
            check=_check,
            reconnect_timeout=5,
            open=False,
            name=self.application,
        )
        await self._pool.open()

    async def close(self) -> None:
        """Close the pool; connections in use are closed as they come back."""
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _configure(self, conn: Connection) -> None:
        await _configure(conn, schema=self.schema)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend an autocommit connection; errors come as ours."""
        if self._pool is None:
            raise DatabaseUnavailable("the connection pool is closed")
        with translated(f"using {self._named}"):
            try:
                async with self._pool.connection() as conn:
                    conn.on_copied = self.on_copied
                    yield conn
            except PoolTimeout as error:
                raise DatabaseUnavailable(
                    f"no connection to {self._named} came free: {error}"
                ) from None

    @asynccontextmanager
    async def transaction(
        self,
        *,
        statement_timeout: timedelta = STATEMENT_TIMEOUT,
        lock_timeout: timedelta = LOCK_TIMEOUT,
    ) -> AsyncIterator[Connection]:
        """Lend a connection inside one READ COMMITTED transaction.

        The timeouts hold for this transaction only (SET LOCAL), so a pooler cannot
        lose them or hand them to somebody else.
        """
        async with self.connection() as conn, conn.transaction():
            await set_local_timeouts(
                conn, statement_timeout=statement_timeout, lock_timeout=lock_timeout
            )
            yield conn

    async def connect(self, *, application: str | None = None) -> Connection:
        """Open a connection outside the pool, for a session's whole life."""
        return await connect(
            self.url,
            schema=self.schema,
            application=application or self.application,
            prepared=bool(self.prepared),
        )


async def set_local_timeouts(
    conn: Connection,
    *,
    statement_timeout: timedelta = STATEMENT_TIMEOUT,
    lock_timeout: timedelta = LOCK_TIMEOUT,
    idle_timeout: timedelta = IDLE_TIMEOUT,
) -> None:
    """Bound what the current transaction may wait for, in one round trip."""
    await conn.execute(
        b"select pg_catalog.set_config('statement_timeout', %s, true),"
        b" pg_catalog.set_config('lock_timeout', %s, true),"
        b" pg_catalog.set_config('idle_in_transaction_session_timeout', %s, true)",
        [
            _milliseconds(statement_timeout),
            _milliseconds(lock_timeout),
            _milliseconds(idle_timeout),
        ],
    )


def _milliseconds(value: timedelta) -> str:
    return f"{max(1, round(value.total_seconds() * 1000))}ms"
