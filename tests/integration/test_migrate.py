from __future__ import annotations

import asyncio

import pytest

from indexer.db.connection import connect
from indexer.db.migrate import check_schema, migrate, migrations
from indexer.errors import DatabaseUnavailable, MigrationError


async def test_migrating_twice_applies_everything_once(empty_database_url: str) -> None:
    names = [each.name for each in migrations()]
    assert await migrate(empty_database_url, schema="indexer") == names
    assert await migrate(empty_database_url, schema="indexer") == []


async def test_many_hosts_may_migrate_at_once(empty_database_url: str) -> None:
    applied = await asyncio.gather(
        *(migrate(empty_database_url, schema="indexer") for _ in range(6))
    )
    names = [name for each in applied for name in each]
    assert sorted(names) == [each.name for each in migrations()]


async def test_two_chains_share_a_database_as_two_schemas(
    empty_database_url: str,
) -> None:
    for schema in ("mainnet", 'odd "name'):
        await migrate(empty_database_url, schema=schema)
        conn = await connect(empty_database_url, schema=schema)
        async with conn:
            await check_schema(conn)


async def test_a_schema_that_was_never_migrated_names_the_command(
    empty_database_url: str,
) -> None:
    conn = await connect(empty_database_url, schema="indexer")
    async with conn:
        with pytest.raises(MigrationError, match="run `indexer migrate`"):
            await check_schema(conn)


async def test_a_schema_of_before_is_brought_up_to_date(database_url: str) -> None:
    conn = await connect(database_url, schema="indexer")
    async with conn:
        await conn.execute("alter table indexer.migrations drop column serves_from")
        with pytest.raises(MigrationError, match="run `indexer migrate`"):
            await check_schema(conn)
        assert await migrate(database_url, schema="indexer") == []
        await check_schema(conn)


async def test_an_older_schema_is_refused_with_the_command_that_helps(
    database_url: str,
) -> None:
    conn = await connect(database_url, schema="indexer")
    async with conn:
        await conn.execute("delete from indexer.migrations")
        with pytest.raises(MigrationError, match="run `indexer migrate`"):
            await check_schema(conn)


async def test_a_newer_schema_is_served_as_far_as_it_says_so(
    database_url: str,
) -> None:
    conn = await connect(database_url, schema="indexer")
    async with conn:
        await conn.execute(
            "insert into indexer.migrations (version, name, checksum, serves_from) "
            "values (9998, '9998_adds', 'x', 1)"
        )
        await check_schema(conn)
        # One that says nothing is not known to only add.
        await conn.execute(
            "insert into indexer.migrations (version, name, checksum) "
            "values (9999, '9999_breaks', 'x')"
        )
        with pytest.raises(MigrationError, match="9999_breaks wants one that knows"):
            await check_schema(conn)
    with pytest.raises(MigrationError, match="newer than this program"):
        await migrate(database_url, schema="indexer")


async def test_an_altered_migration_is_refused(database_url: str) -> None:
    conn = await connect(database_url, schema="indexer")
    async with conn:
        await conn.execute("update indexer.migrations set checksum = 'other'")
        with pytest.raises(MigrationError, match="from a different file"):
            await check_schema(conn)


async def test_a_wrong_url_says_what_is_wrong_and_no_password(
    database_url: str,
) -> None:
    for url in (
        "postgresql://user:hunter2@127.0.0.1:1/none",
        "host=127.0.0.1 port=1 user=u password=hunter2",
    ):
        with pytest.raises(DatabaseUnavailable) as caught:
            await migrate(url, schema="indexer")
        assert "hunter2" not in str(caught.value)
        assert "--database-url" in str(caught.value)


async def test_nobody_may_rely_on_search_path(empty_database_url: str) -> None:
    """Every statement says its schema: an empty search_path changes nothing."""
    conn = await connect(empty_database_url, schema="indexer")
    async with conn:
        cursor = await conn.execute("select current_database()")
        name = (await cursor.fetchone() or ("",))[0]
        await conn.execute(f'alter database "{name}" set search_path = pg_catalog')
    await migrate(empty_database_url, schema="indexer")
    conn = await connect(empty_database_url, schema="indexer")
    async with conn:
        await check_schema(conn)
