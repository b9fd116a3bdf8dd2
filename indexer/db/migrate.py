"""Apply ``sql/migrations`` in order, and refuse a schema that does not fit.

Each migration runs in a transaction of its own under a transaction-level advisory
lock (a session-level one would outlive a pooled connection), so any number of hosts
may migrate at once. Checksums tell a file that was altered after it was applied.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from indexer.db.connection import Connection, connect, set_local_timeouts
from indexer.db.failures import translated
from indexer.db.queries import bind, load, sql_directory
from indexer.errors import MigrationError

_QUERIES = load("migrate")
_LOCK = _QUERIES["lock_migrations"]
_SCHEMA_EXISTS = _QUERIES["schema_exists"]
_TABLE_EXISTS = _QUERIES["migrations_table_exists"]
_CREATE_SCHEMA = _QUERIES["create_schema"]
_CREATE_TABLE = _QUERIES["create_migrations_table"]
_APPLIED = _QUERIES["applied_migrations"]
_RECORD = _QUERIES["record_migration"]
_FILE_NAME = re.compile(r"^(\d{4})_[a-z0-9_]+\.sql$")


class Migration(NamedTuple):
    """One file of ``sql/migrations``."""

    version: int
    name: str
    checksum: str
    template: str


def migrations() -> list[Migration]:
    """Return all migrations of this program, in order."""
    found = []
    for path in sorted((sql_directory() / "migrations").glob("*.sql")):
        match = _FILE_NAME.match(path.name)
        if match is None:
            raise MigrationError(f"{path.name} is not named like 0001_initial.sql")
        text = path.read_text(encoding="utf-8")
        checksum = hashlib.sha256(text.encode()).hexdigest()
        found.append(Migration(int(match[1]), path.stem, checksum, text))
    return found


async def migrate(url: str, *, schema: str) -> list[str]:
    """Bring the schema up to date; return the names of what was applied.

    Raises MigrationError where the schema is newer than this program or a file was
    altered after it was applied.
    """
    conn = await connect(url, schema=schema, application="indexer migrate")
    async with conn:
        with translated(f"migrating schema {schema}"):
            await _ensure_table(conn)
            applied = []
            for migration in migrations():
                if await _apply(conn, migration):
                    applied.append(migration.name)
            _check_known(await _applied(conn), schema)
        return applied


async def check_schema(conn: Connection) -> None:
    """Raise MigrationError unless the schema is exactly this program's."""
    with translated(f"reading the schema version of {conn.schema}"):
        row = await _TABLE_EXISTS.row(conn, schema=conn.schema)
        present = await _applied(conn) if row is not None and row[0] else {}
    missing = [each for each in migrations() if each.version not in present]
    if missing:
        state = "is not there yet" if not present else f"lacks {missing[0].name}"
        raise MigrationError(f"schema {conn.schema} {state}; run `indexer migrate`")
    _check_known(present, conn.schema)


async def _ensure_table(conn: Connection) -> None:
    async with conn.transaction():
        await set_local_timeouts(conn)
        await _LOCK.run(conn, schema=conn.schema)
        row = await _SCHEMA_EXISTS.row(conn, schema=conn.schema)
        if row is None or not row[0]:
            await _CREATE_SCHEMA.run(conn)
        await _CREATE_TABLE.run(conn)
        _check_known(await _applied(conn), conn.schema)


async def _apply(conn: Connection, migration: Migration) -> bool:
    async with conn.transaction():
        await set_local_timeouts(conn)
        await _LOCK.run(conn, schema=conn.schema)
        if migration.version in await _applied(conn):
            return False
        await conn.execute(bind(migration.template, schema=conn.schema))
        await _RECORD.run(
            conn,
            version=migration.version,
            name=migration.name,
            checksum=migration.checksum,
        )
        return True


async def _applied(conn: Connection) -> dict[int, tuple[str, str]]:
    return {row[0]: (row[1], row[2]) for row in await _APPLIED.rows(conn)}


def _check_known(applied: dict[int, tuple[str, str]], schema: str) -> None:
    known = {each.version: each for each in migrations()}
    for version, (name, checksum) in sorted(applied.items()):
        if version not in known:
            raise MigrationError(
                f"schema {schema} is newer than this program (it has {name}); upgrade "
                "the program"
            )
        if known[version].checksum != checksum:
            raise MigrationError(
                f"migration {name} of schema {schema} was applied from a different "
                "file; this program and the database do not belong together"
            )
