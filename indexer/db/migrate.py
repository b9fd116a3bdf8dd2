"""Apply ``sql/migrations`` in order, and refuse a schema that does not fit.

Each migration runs in a transaction of its own under a transaction-level advisory
lock (a session-level one would outlive a pooled connection), so any number of hosts
may migrate at once. Checksums tell a file that was altered after it was applied.

A migration that only adds leaves the programs of before at work: they serve a schema
that is newer than they are. One that takes something away or changes it says so in a
line of its own, ``-- serves programs from 0003``, and those that know no such
migration refuse the schema, or stop (:mod:`indexer.services.compatibility`).
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
_EXTEND_TABLE = _QUERIES["extend_migrations_table"]
_APPLIED = _QUERIES["applied_migrations"]
_RECORD = _QUERIES["record_migration"]
_FILE_NAME = re.compile(r"^(\d{4})_[a-z0-9_]+\.sql$")
_SERVES = re.compile(r"^-- serves programs from (\d{4})$", re.MULTILINE)


class Migration(NamedTuple):
    """One file of ``sql/migrations``.

    ``serves_from`` is the version that a program has to know to use the schema
    afterwards: this one, unless the file says that it only adds to an older one.
    """

    version: int
    name: str
    checksum: str
    template: str
    serves_from: int


class _Applied(NamedTuple):
    name: str
    checksum: str
    serves_from: int


def migrations() -> list[Migration]:
    """Return all migrations of this program, in order."""
    found = []
    for path in sorted((sql_directory() / "migrations").glob("*.sql")):
        match = _FILE_NAME.match(path.name)
        if match is None:
            raise MigrationError(f"{path.name} is not named like 0001_initial.sql")
        text = path.read_text(encoding="utf-8")
        checksum = hashlib.sha256(text.encode()).hexdigest()
        serves = _SERVES.search(text)
        found.append(
            Migration(
                version=int(match[1]),
                name=path.stem,
                checksum=checksum,
                template=text,
                serves_from=int(serves[1] if serves else match[1]),
            )
        )
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
            _refuse_newer(await _applied(conn), schema)
        return applied


async def check_schema(conn: Connection) -> None:
    """Raise MigrationError unless this program can serve the schema.

    It may be newer, as long as what was added since lets older programs be.
    """
    with translated(f"reading the schema version of {conn.schema}"):
        row = await _TABLE_EXISTS.row(conn, schema=conn.schema)
        present = await _applied(conn) if row is not None and row[0] else {}
    missing = [each for each in migrations() if each.version not in present]
    if missing:
        state = "is not there yet" if not present else f"lacks {missing[0].name}"
        raise MigrationError(f"schema {conn.schema} {state}; run `indexer migrate`")
    _check_served(present, conn.schema)
    _check_unaltered(present, conn.schema)


async def _ensure_table(conn: Connection) -> None:
    async with conn.transaction():
        await set_local_timeouts(conn)
        await _LOCK.run(conn, schema=conn.schema)
        row = await _SCHEMA_EXISTS.row(conn, schema=conn.schema)
        if row is None or not row[0]:
            await _CREATE_SCHEMA.run(conn)
        await _CREATE_TABLE.run(conn)
        await _EXTEND_TABLE.run(conn)
        _refuse_newer(await _applied(conn), conn.schema)


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
            serves_from=migration.serves_from,
        )
        return True


async def _applied(conn: Connection) -> dict[int, _Applied]:
    return {version: _Applied(*rest) for version, *rest in await _APPLIED.rows(conn)}


def _refuse_newer(applied: dict[int, _Applied], schema: str) -> None:
    newest = _newest_known()
    for version, found in sorted(applied.items()):
        if version > newest:
            raise MigrationError(
                f"schema {schema} is newer than this program (it has {found.name}); "
                "upgrade the program"
            )
    _check_unaltered(applied, schema)


def _check_served(applied: dict[int, _Applied], schema: str) -> None:
    newest = _newest_known()
    for _, found in sorted(applied.items()):
        if found.serves_from > newest:
            raise MigrationError(
                f"schema {schema} is newer than this program can serve: {found.name} "
                f"wants one that knows {found.serves_from:04d}, and this one knows "
                f"nothing after {newest:04d}; upgrade the program"
            )


def _check_unaltered(applied: dict[int, _Applied], schema: str) -> None:
    for known in migrations():
        found = applied.get(known.version)
        if found is not None and found.checksum != known.checksum:
            raise MigrationError(
                f"migration {found.name} of schema {schema} was applied from a "
                "different file; this program and the database do not belong together"
            )


def _newest_known() -> int:
    return max(each.version for each in migrations())
