from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from indexer.db.connection import Connection, Database, connect
from indexer.ranges import BlockRange
from indexer.store import blocks, coverage
from indexer.store.partitions import HEIGHTS_PER_PARTITION, ensure_partitions
from indexer.store.tables import ALL_TABLES
from tests.support.samples import block_data

MILLION = HEIGHTS_PER_PARTITION


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with Database(database_url, schema="indexer") as opened:
        yield opened


async def attached(conn: Connection, table: str) -> list[str]:
    cursor = await conn.execute(
        "select inhrelid::regclass::text from pg_inherits "
        "where inhparent = %s::regclass order by 1",
        [f"indexer.{table}"],
    )
    return [row[0] for row in await cursor.fetchall()]


async def test_partitions_are_made_for_every_table_and_once(database: Database) -> None:
    async with database.connection() as conn:
        made = await ensure_partitions(conn, BlockRange(0, 2 * MILLION - 1))
        assert len(made) == 2 * len(ALL_TABLES)
        assert await ensure_partitions(conn, BlockRange(5, MILLION)) == []
        assert await attached(conn, "logs") == [
            "indexer.logs_p000000",
            "indexer.logs_p000001",
        ]
        cursor = await conn.execute(
            "select conrelid::regclass::text from pg_constraint "
            "where conrelid = 'indexer.blocks_p000001'::regclass and contype = 'p'"
        )
        assert await cursor.fetchone() == ("indexer.blocks_p000001",)


async def test_many_makers_at_once_make_each_partition_once(database: Database) -> None:
    async def make(first: int) -> list[str]:
        async with database.connection() as conn:
            return await ensure_partitions(conn, BlockRange(first, first + MILLION))

    made = await asyncio.gather(*(make(MILLION * (each % 3)) for each in range(9)))
    names = [name for each in made for name in each]
    assert len(names) == len(set(names)) == 4 * len(ALL_TABLES)


async def test_readers_and_writers_go_on_while_partitions_are_made(
    database: Database, database_url: str
) -> None:
    """A reader that holds its locks for a whole transaction, and one in a loop."""
    async with database.connection() as conn:
        await ensure_partitions(conn, BlockRange(0, 10))
        async with conn.transaction():
            await blocks.write_blocks(conn, data=[block_data(5)], fresh=True)
    holding = await connect(database_url, schema="indexer")
    looping = await connect(database_url, schema="indexer")
    done = asyncio.Event()
    reads = 0

    async def read_in_a_loop() -> None:
        nonlocal reads
        while not done.is_set():
            # Longer than this means that a reader had to wait for a lock.
            async with asyncio.timeout(5):
                cursor = await looping.execute("select count(*) from indexer.blocks")
                assert await cursor.fetchone() == (1,)
            reads += 1
            await asyncio.sleep(0)

    async with holding, looping:
        async with holding.transaction():
            await holding.execute("select count(*) from indexer.blocks")
            await holding.execute("select count(*) from indexer.logs")
            reader = asyncio.create_task(read_in_a_loop())
            async with database.connection() as conn:
                made = await ensure_partitions(conn, BlockRange(0, 4 * MILLION))
            assert len(made) == 4 * len(ALL_TABLES)
        done.set()
        await reader
    assert reads > 0


async def test_coverage_is_exact_however_it_is_extended(database: Database) -> None:
    pieces = [(0, 9_999), (5, 10), (19_990, 30_005), (40_000, 40_000), (30_006, 39_999)]
    async with database.connection() as conn:
        for first, last in pieces:
            await coverage.extend(
                conn, dataset="blocks", blocks=BlockRange(first, last)
            )
        assert await coverage.covered(conn, dataset="blocks") == [
            BlockRange(0, 9_999),
            BlockRange(19_990, 40_000),
        ]
        assert await coverage.covered(conn, dataset="events") == []
