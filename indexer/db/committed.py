"""One statement, committed at once, at READ COMMITTED whatever the server's default.

An autocommit statement takes its isolation from ``default_transaction_isolation``,
and psycopg's own setting only changes the BEGIN it sends. Under REPEATABLE READ and
above, rows that SKIP LOCKED stepped past still raise serialization failures.
"""

from __future__ import annotations

from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from indexer.db.connection import Connection
from indexer.db.queries import Query

_READ_COMMITTED = "read committed"


async def rows_committed(
    conn: Connection, query: Query, **parameters: object
) -> list[TupleRow]:
    """Execute on an autocommit connection and return every row.

    Inside a transaction it is a statement of that transaction. Where the default
    isolation is another than READ COMMITTED it travels between BEGIN and COMMIT in
    one round trip (0.1 ms more than without, on loopback).
    """
    if conn.info.transaction_status is not TransactionStatus.IDLE:
        return await query.rows(conn, **parameters)
    if await _default_isolation(conn) == _READ_COMMITTED:
        return await query.rows(conn, **parameters)
    try:
        async with conn.pipeline():
            await conn.execute(b"begin isolation level read committed")
            cursor = await conn.execute(query.on(conn.schema), parameters or None)
            await conn.execute(b"commit")
        return await cursor.fetchall()
    except BaseException:
        await conn.rollback()
        raise


async def _default_isolation(conn: Connection) -> str:
    if conn.default_isolation is None:
        cursor = await conn.execute(
            b"select pg_catalog.current_setting('default_transaction_isolation')"
        )
        row = await cursor.fetchone()
        conn.default_isolation = str(row[0]) if row is not None else ""
    return conn.default_isolation
