"""The pool of connections to PostgreSQL that know their chain's schema.

A transaction is opened on purpose by :meth:`Database.transaction`; everything else is
a statement committed at once. Nothing here leaves session state behind, so a
transaction-mode pooler may stand in between.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from time import monotonic
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from indexer.db.failures import is_read_only, is_severed, translated
from indexer.db.session import (
    Connection,
    Copied,
    SyncConnection,
    behind_pooler,
    configure,
    connect,
    connect_sync,
    conninfo,
)
from indexer.errors import DatabaseUnavailable
from indexer.log import redact_url

__all__ = [
    "IDLE_TIMEOUT",
    "REPLY_TIMEOUT",
    "Connection",
    "Database",
    "SyncConnection",
    "behind_pooler",
    "connect",
    "connect_sync",
    "set_local_timeouts",
]

# A connection that answered this recently is lent without asking it again, which
# would cost every job of a busy worker one more round trip.
_PROVEN_SECONDS = 1.0
# Asking takes a round trip; the server does nothing for it.
_CHECK_SECONDS = 5.0

STATEMENT_TIMEOUT = timedelta(seconds=60)
IDLE_TIMEOUT = timedelta(seconds=30)
LOCK_TIMEOUT = timedelta(seconds=10)
# How long a plain statement's answer is waited for on a silent connection. In a
# transaction the server's own timeout comes first, and this much later is ours.
REPLY_TIMEOUT = timedelta(seconds=30)
_LATER = timedelta(seconds=5)


async def _check(conn: Connection) -> None:
    if monotonic() - conn.proven_at > _PROVEN_SECONDS:
        conn.reply_timeout = _CHECK_SECONDS
        await AsyncConnectionPool.check_connection(conn)
        conn.proven_at = monotonic()


async def _ask_again(pool: AsyncConnectionPool[Any]) -> None:
    # A pool that could not connect for a while stops trying, though clients wait:
    # only a new request makes it go on.
    with suppress(PoolTimeout, PoolClosed):
        async with pool.connection(timeout=0.01):
            pass


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
        reply_timeout: timedelta | None = REPLY_TIMEOUT,
    ) -> None:
        """Remember the settings; :meth:`open` connects.

        ``prepared`` None means: prepare statements unless a pooler is noticed.
        ``reply_timeout`` is for plain statements; None where a human waits and may
        ask for much.
        """
        self.url = url
        self._named = redact_url(url)
        self.schema = schema
        self.size = size
        self.application = application
        self.prepared = prepared
        self.reply_timeout = reply_timeout
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
            reconnect_failed=_ask_again,
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
        await configure(conn, schema=self.schema)

    @asynccontextmanager
    async def connection(
        self, *, reply_timeout: timedelta | None = None
    ) -> AsyncIterator[Connection]:
        """Lend an autocommit connection; errors come as ours.

        ``reply_timeout`` None is the database's. A connection that errs in a way that
        reconnecting may cure is not lent again.
        """
        if self._pool is None:
            raise DatabaseUnavailable("the connection pool is closed")
        with translated(f"using {self._named}"):
            try:
                async with self._pool.connection() as conn:
                    conn.on_copied = self.on_copied
                    conn.reply_timeout = _seconds(reply_timeout or self.reply_timeout)
                    try:
                        yield conn
                    except psycopg.Error as error:
                        await self._discard(conn, error)
                        raise
            except PoolTimeout as error:
                raise DatabaseUnavailable(
                    f"no connection to {self._named} came free: {error}"
                ) from None

    async def _discard(self, conn: Connection, error: psycopg.Error) -> None:
        if is_severed(error):
            await conn.close()
            if is_read_only(error) and self._pool is not None:
                # The others go to the same server, which is not the primary any more.
                await self._pool.drain()

    @asynccontextmanager
    async def transaction(
        self,
        *,
        statement_timeout: timedelta = STATEMENT_TIMEOUT,
        lock_timeout: timedelta = LOCK_TIMEOUT,
        idle_timeout: timedelta = IDLE_TIMEOUT,
    ) -> AsyncIterator[Connection]:
        """Lend a connection inside one READ COMMITTED transaction.

        The timeouts hold for this transaction only (SET LOCAL), so a pooler cannot
        lose them or hand them to somebody else.
        """
        patience = statement_timeout + _LATER
        async with (
            self.connection(reply_timeout=patience) as conn,
            conn.transaction(),
        ):
            await set_local_timeouts(
                conn,
                statement_timeout=statement_timeout,
                lock_timeout=lock_timeout,
                idle_timeout=idle_timeout,
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


def _seconds(value: timedelta | None) -> float | None:
    return None if value is None else value.total_seconds()
