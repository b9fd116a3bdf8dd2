"""The only COPY: rows into a table, straight or by way of a staging table."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import errors as pg
from psycopg import sql

from indexer.db.connection import Connection
from indexer.errors import IndexerError
from indexer.store.encode import SIGNATURE, TRAILER, encode_rows
from indexer.store.tables import Table

# Keeps a piece to some hundred kilobytes, and the event loop from standing still.
_ROWS_A_PIECE = 1000


class RangeNotFresh(IndexerError):
    """Rows were there already: the same chunk goes through the staging table."""


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Rows of a table as COPY data, in pieces."""

    table: Table
    count: int
    pieces: list[bytes]

    @property
    def size(self) -> int:
        """How many bytes of COPY data there are."""
        return sum(map(len, self.pieces))


async def encode(table: Table, rows: Sequence[tuple[object, ...]]) -> EncodedRows:
    """Encode rows, letting others run now and then.

    Outside of the transaction that writes them, which then waits for PostgreSQL only.
    """
    pieces = []
    for at in range(0, len(rows), _ROWS_A_PIECE):
        pieces.append(encode_rows(table.types, rows[at : at + _ROWS_A_PIECE]))
        await asyncio.sleep(0)
    return EncodedRows(table, len(rows), pieces)


async def copy_rows(conn: Connection, rows: EncodedRows, *, fresh: bool) -> int:
    """Write rows into their table; return how many were not there before.

    Fresh rows are copied straight in. Otherwise they go through a temporary table
    and ``INSERT … ON CONFLICT DO NOTHING``, in key order so that two writers of the
    same rows cannot deadlock. Both leave the same rows. Runs in the caller's
    transaction.

    Raises RangeNotFresh (the transaction is then lost) where ``fresh`` was wrong.
    """
    if fresh and not rows.count:
        return 0
    target = sql.Identifier(conn.schema, rows.table.name)
    if fresh:
        try:
            await _copy(conn, target, rows)
        except pg.UniqueViolation:
            raise RangeNotFresh(
                f"some rows of {rows.table.name} exist already"
            ) from None
        return rows.count
    return await _merge(conn, target, rows)


def copy_statement(target: sql.Identifier, table: Table) -> sql.Composed:
    """Return the COPY of a table's rows into ``target``."""
    columns = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    return sql.SQL("copy {} ({}) from stdin (format binary)").format(target, columns)


async def _merge(conn: Connection, target: sql.Identifier, rows: EncodedRows) -> int:
    # pg_temp is the session's own schema, and ON COMMIT DROP keeps it from outliving
    # the transaction on a pooled connection.
    table = rows.table
    stage = sql.Identifier("pg_temp", f"stage_{table.name}")
    await conn.execute(
        sql.SQL("create temporary table {} (like {}) on commit drop").format(
            sql.Identifier(f"stage_{table.name}"), target
        )
    )
    await _copy(conn, stage, rows)
    columns = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    key = sql.SQL(", ").join(map(sql.Identifier, table.columns[:2]))
    cursor = await conn.execute(
        sql.SQL(
            "insert into {target} ({columns}) select {columns} from {stage} "
            "order by {key} on conflict do nothing"
        ).format(target=target, columns=columns, stage=stage, key=key)
    )
    return cursor.rowcount


async def _copy(conn: Connection, target: sql.Identifier, rows: EncodedRows) -> None:
    statement = copy_statement(target, rows.table)
    try:
        async with conn.cursor() as cursor, cursor.copy(statement) as copy:
            await copy.write(SIGNATURE)
            for piece in rows.pieces:
                await copy.write(piece)
            await copy.write(TRAILER)
    except ValueError as error:
        # psycopg takes one answer to a COPY. Where the server ends a session and a
        # pooler says so too there are two, and what follows cannot be told apart.
        conn.pgconn.finish()
        raise psycopg.OperationalError(
            f"the connection was ended in a COPY into {rows.table.name}"
        ) from error
    if conn.on_copied is not None:
        conn.on_copied(rows.table.name, rows.count, rows.size)
