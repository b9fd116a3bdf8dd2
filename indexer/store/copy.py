"""The only COPY: rows into a table, straight or by way of a staging table."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import errors as pg
from psycopg import sql

from indexer.db.connection import Connection
from indexer.errors import IndexerError
from indexer.store.encode import SIGNATURE, TRAILER, encode_rows
from indexer.store.tables import Table

# Keeps what is encoded but not yet sent to some hundred kilobytes, and lets other
# tasks (the heartbeat's replies) run in between.
_ROWS_A_WRITE = 500


class RangeNotFresh(IndexerError):
    """Rows were there already: the same chunk goes through the staging table."""


async def copy_rows(
    conn: Connection, *, table: Table, rows: Sequence[tuple[object, ...]], fresh: bool
) -> int:
    """Write rows into a chain table; return how many were not there before.

    Fresh rows are copied straight in. Otherwise they go through a temporary table
    and ``INSERT … ON CONFLICT DO NOTHING``, in key order so that two writers of the
    same rows cannot deadlock. Both leave the same rows. Runs in the caller's
    transaction.

    Raises RangeNotFresh (the transaction is then lost) where ``fresh`` was wrong.
    """
    if fresh and not rows:
        return 0
    target = sql.Identifier(conn.schema, table.name)
    if fresh:
        try:
            await _copy(conn, target, table, rows)
        except pg.UniqueViolation:
            raise RangeNotFresh(f"some rows of {table.name} exist already") from None
        return len(rows)
    return await _merge(conn, target, table, rows)


def copy_statement(target: sql.Identifier, table: Table) -> sql.Composed:
    """Return the COPY of a table's rows into ``target``."""
    columns = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    return sql.SQL("copy {} ({}) from stdin (format binary)").format(target, columns)


async def _merge(
    conn: Connection,
    target: sql.Identifier,
    table: Table,
    rows: Sequence[tuple[object, ...]],
) -> int:
    # pg_temp is the session's own schema, and ON COMMIT DROP keeps it from outliving
    # the transaction on a pooled connection.
    stage = sql.Identifier("pg_temp", f"stage_{table.name}")
    await conn.execute(
        sql.SQL("create temporary table {} (like {}) on commit drop").format(
            sql.Identifier(f"stage_{table.name}"), target
        )
    )
    await _copy(conn, stage, table, rows)
    columns = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    key = sql.SQL(", ").join(map(sql.Identifier, table.columns[:2]))
    cursor = await conn.execute(
        sql.SQL(
            "insert into {target} ({columns}) select {columns} from {stage} "
            "order by {key} on conflict do nothing"
        ).format(target=target, columns=columns, stage=stage, key=key)
    )
    return cursor.rowcount


async def _copy(
    conn: Connection,
    target: sql.Identifier,
    table: Table,
    rows: Sequence[tuple[object, ...]],
) -> None:
    statement = copy_statement(target, table)
    sent = 0
    async with conn.cursor() as cursor, cursor.copy(statement) as copy:
        await copy.write(SIGNATURE)
        for at in range(0, len(rows), _ROWS_A_WRITE):
            part = encode_rows(table.types, rows[at : at + _ROWS_A_WRITE])
            await copy.write(part)
            sent += len(part)
        await copy.write(TRAILER)
    if conn.on_copied is not None:
        conn.on_copied(table.name, len(rows), sent)
