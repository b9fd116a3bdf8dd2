from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from indexer.db.connection import Connection, Database
from indexer.errors import InconsistentResponse, ReorgDetected, StoredBlockConflict
from indexer.ranges import BlockRange
from indexer.rows import BlockData
from indexer.store import blocks, coverage
from indexer.store.copy import RangeNotFresh
from indexer.store.partitions import ensure_partitions
from indexer.store.tables import ALL_TABLES, Table
from tests.support.samples import block_data, block_events, fake_hash

CHAIN = [block_data(number) for number in range(100, 110)]


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with Database(database_url, schema="indexer") as opened:
        async with opened.connection() as conn:
            await ensure_partitions(conn, BlockRange(0, 200))
        yield opened


async def store(
    database: Database, data: list[BlockData], *, fresh: bool, events: bool = True
) -> None:
    async with database.transaction() as conn:
        await blocks.write_blocks(conn, data=data, fresh=fresh)
        if events:
            await blocks.write_events(
                conn,
                data=[block_events(each) for each in data],
                fresh=fresh,
                final=False,
            )


async def contents(conn: Connection, table: Table) -> list[tuple[object, ...]]:
    cursor = await conn.execute(
        f"select * from {conn.schema}.{table.name} order by 1, 2".encode()
    )
    return await cursor.fetchall()


async def everything(database: Database) -> dict[str, list[tuple[object, ...]]]:
    async with database.connection() as conn:
        return {table.name: await contents(conn, table) for table in ALL_TABLES}


async def test_the_columns_of_the_rows_are_the_columns_of_the_tables(
    database: Database,
) -> None:
    async with database.connection() as conn:
        for table in ALL_TABLES:
            cursor = await conn.execute(
                "select attname, format_type(atttypid, null) from pg_attribute "
                "where attrelid = %s::regclass and attnum > 0 and not attisdropped "
                "order by attnum",
                [f"indexer.{table.name}"],
            )
            found = await cursor.fetchall()
            names = {
                "int8": "bigint",
                "int4": "integer",
                "int2": "smallint",
                "timestamptz": "timestamp with time zone",
            }
            assert [row[0] for row in found] == list(table.columns)
            assert [row[1] for row in found] == [
                names.get(each, each) for each in table.types
            ]


async def test_both_paths_leave_the_same_rows_with_every_value_as_given(
    database: Database,
) -> None:
    await store(database, CHAIN, fresh=True)
    fresh = await everything(database)
    async with database.transaction() as conn:
        for table in ALL_TABLES:
            await conn.execute(f"truncate indexer.{table.name}".encode())
    await store(database, CHAIN, fresh=False)
    merged = await everything(database)
    assert merged == fresh
    # The merge again, over rows that are all there, changes nothing.
    await store(database, CHAIN, fresh=False)
    assert await everything(database) == fresh
    first = fresh["blocks"][0]
    given = CHAIN[0].block
    assert first[:24] == tuple(given[:24])
    assert tuple(first[24]) == given.uncles  # type: ignore[arg-type]
    assert first[25] == {"l1BlockNumber": "0x10", "note": "é"}
    transaction = fresh["transactions"][0]
    assert transaction[:19] == tuple(CHAIN[0].transactions[0][:19])
    assert transaction[20] == [{"address": "0x00", "storageKeys": []}]


async def test_fresh_rows_over_existing_ones_are_refused_whole(
    database: Database,
) -> None:
    await store(database, CHAIN[3:5], fresh=True)
    before = await everything(database)
    with pytest.raises(RangeNotFresh):
        await store(database, CHAIN, fresh=True)
    assert await everything(database) == before
    await store(database, CHAIN, fresh=False)
    async with database.connection() as conn:
        assert await blocks.stored_ranges(conn, BlockRange(0, 200)) == [
            BlockRange(100, 109)
        ]
        for dataset in ("blocks", "events"):
            assert await coverage.covered(conn, dataset=dataset) == [
                BlockRange(100, 109)
            ]


async def test_c1_a_block_with_another_hash_is_never_kept_or_overwritten_in_silence(
    database: Database,
) -> None:
    await store(database, CHAIN, fresh=True)
    other = block_data(105, fork="b")
    with pytest.raises(StoredBlockConflict) as caught:
        await store(database, [other], fresh=False, events=False)
    assert "indexer verify --from 105" in str(caught.value)
    async with database.connection() as conn:
        assert await blocks.block_hash(conn, 105) == CHAIN[5].block.hash


async def test_c1_a_block_is_stored_only_on_its_stored_parent(
    database: Database,
) -> None:
    await store(database, CHAIN[:5], fresh=True)
    with pytest.raises(ReorgDetected):
        await store(database, [block_data(105, parent="b")], fresh=True)
    with pytest.raises(InconsistentResponse):
        await store(database, [block_data(99, fork="b")], fresh=True)
    await store(database, [block_data(99)], fresh=True)
    async with database.connection() as conn:
        assert await blocks.stored_ranges(conn, BlockRange(0, 200)) == [
            BlockRange(99, 104)
        ]


async def test_c2_events_are_refused_where_the_block_is_gone_or_another(
    database: Database,
) -> None:
    await store(database, CHAIN[:2], fresh=True, events=False)
    for wrong in (
        block_events(CHAIN[2]),
        block_events(CHAIN[0])._replace(hash=fake_hash("other")),
    ):
        for final in (True, False):
            with pytest.raises(InconsistentResponse, match="not the block stored"):
                async with database.transaction() as conn:
                    await blocks.write_events(
                        conn, data=[wrong], fresh=True, final=final
                    )
    assert (await everything(database))["receipts"] == []


async def test_c2_a_block_above_the_finalized_height_cannot_be_replaced_meanwhile(
    database: Database,
) -> None:
    await store(database, CHAIN[:2], fresh=True, events=False)
    async with database.transaction() as conn:
        await blocks.write_events(
            conn, data=[block_events(CHAIN[0])], fresh=True, final=False
        )
        async with database.connection() as other:
            cursor = await other.execute(
                "select count(*) from (select from indexer.blocks where number = 100 "
                "for update skip locked) as free"
            )
            assert await cursor.fetchone() == (0,)


async def test_blocks_whose_receipts_or_logs_are_missing_are_named(
    database: Database,
) -> None:
    empty = [block_data(number, transactions=0) for number in range(110, 112)]
    await store(database, [*CHAIN, *empty], fresh=True)
    whole = BlockRange(0, 200)
    async with database.connection() as conn:
        assert await blocks.without_events(conn, whole) == []
        await conn.execute(
            "delete from indexer.receipts where block_number = 103 "
            "and transaction_index = 1"
        )
        await conn.execute("delete from indexer.logs where block_number = 107")
        assert await blocks.without_events(conn, whole) == [103, 107]


async def test_rows_without_a_block_never_pass_for_a_new_blocks_own(
    database: Database,
) -> None:
    await store(database, CHAIN, fresh=True)
    async with database.connection() as conn:
        await conn.execute("delete from indexer.blocks where number >= 103")
        assert not await blocks.range_is_empty(conn, BlockRange(105, 105))
    fork = [block_data(103, fork="b", transactions=1)]
    await store(database, fork, fresh=False)
    found = await everything(database)
    assert [row[2] for row in found["transactions"] if row[0] == 103] == [
        fork[0].transactions[0].hash
    ]
    assert len([row for row in found["logs"] if row[0] == 103]) == 1


async def test_other_receipts_or_logs_already_stored_are_said_and_not_overwritten(
    database: Database,
) -> None:
    await store(database, CHAIN, fresh=True)
    before = await everything(database)
    events = block_events(CHAIN[4])
    for wrong in (
        events._replace(logs=[events.logs[0]._replace(data=b"x"), events.logs[1]]),
        events._replace(logs=events.logs[:1]),
        events._replace(receipts=[events.receipts[0]._replace(status=0)]),
    ):
        with pytest.raises(InconsistentResponse, match="block 104 are not those"):
            async with database.transaction() as conn:
                await blocks.write_events(conn, data=[wrong], fresh=False, final=True)
    assert await everything(database) == before
