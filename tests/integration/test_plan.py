from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from indexer.db.connection import Connection, Database
from indexer.jobs import backlog
from indexer.jobs.backlog import JobFilter
from indexer.ranges import BlockRange, union
from indexer.services.kinds import INDEX_BLOCKS, INDEX_EVENTS
from indexer.services.plan import plan, queued_ranges
from indexer.store import blocks, chain
from indexer.store.partitions import ensure_partitions
from tests.support.samples import block_data, block_events

TWO_MILLION = BlockRange(0, 1_999_999)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with Database(database_url, schema="indexer") as opened:
        yield opened


async def queued(database: Database, kind: str) -> list[BlockRange]:
    async with database.connection() as conn:
        return sorted(
            each.blocks for each in await queued_ranges(conn) if each.kind == kind
        )


async def store(database: Database, heights: range, *, events: bool = True) -> None:
    data = [block_data(number) for number in heights]
    async with database.connection() as conn:
        await ensure_partitions(conn, BlockRange(heights[0], heights[-1]))
    async with database.transaction() as conn:
        await blocks.write_blocks(conn, data=data, fresh=False)
        if events:
            await blocks.write_events(
                conn,
                data=[block_events(each) for each in data],
                fresh=False,
                final=True,
            )


async def execute(database: Database, statement: str) -> None:
    async with database.connection() as conn:
        await conn.execute(statement.encode())


async def test_two_million_heights_are_two_hundred_jobs_and_again_none(
    database: Database,
) -> None:
    made = await plan(database, blocks=TWO_MILLION)
    assert len(made.block_jobs) == 200
    found = await queued(database, INDEX_BLOCKS)
    assert len(found) == 200
    assert union(found) == [TWO_MILLION]
    assert {len(each) for each in found} == {10_000}
    again = await plan(database, blocks=TWO_MILLION)
    assert again.block_jobs == again.event_jobs == []
    assert again.queued_before == 2_000_000


async def test_the_payload_holds_both_ends_and_nothing_else(database: Database) -> None:
    await plan(database, blocks=BlockRange(10_000, 24_999))
    async with database.connection() as conn:
        found = await backlog.list_jobs(conn, which=JobFilter())
    assert sorted((each.payload for each in found), key=str) == [
        {"from": 10_000, "to": 19_999},
        {"from": 20_000, "to": 24_999},
    ]
    assert {(each.kind, each.status, each.priority) for each in found} == {
        (INDEX_BLOCKS, "pending", 10)
    }


async def test_many_plans_at_once_queue_everything_once(database: Database) -> None:
    await asyncio.gather(*(plan(database, blocks=TWO_MILLION) for _ in range(4)))
    assert len(await queued(database, INDEX_BLOCKS)) == 200


async def test_a_dry_run_changes_nothing(database: Database) -> None:
    made = await plan(database, blocks=TWO_MILLION, dry_run=True)
    assert len(made.block_jobs) == 200
    assert await queued(database, INDEX_BLOCKS) == []
    async with database.connection() as conn:
        assert await chain.planned(conn) == []


async def test_exactly_the_missing_intervals_are_queued(database: Database) -> None:
    await store(database, range(100, 400))
    whole = BlockRange(100, 399)
    assert (await plan(database, blocks=whole, range_size=50)).block_jobs == []
    # 37 blocks in three places, one of them across a multiple of the range size.
    await execute(
        database,
        "delete from indexer.blocks where number between 110 and 119 "
        "or number between 195 and 220 or number = 399",
    )
    made = await plan(database, blocks=whole, range_size=50)
    assert made.block_jobs == [
        BlockRange(110, 119),
        BlockRange(195, 199),
        BlockRange(200, 220),
        BlockRange(399, 399),
    ]
    assert made.missing_blocks == 37
    assert made.event_jobs == []
    assert await queued(database, INDEX_BLOCKS) == made.block_jobs


async def test_a_block_without_its_events_is_one_index_events_job(
    database: Database,
) -> None:
    await store(database, range(100, 130))
    await execute(database, "delete from indexer.logs where block_number = 117")
    await execute(database, "delete from indexer.receipts where block_number = 117")
    made = await plan(database, blocks=BlockRange(100, 129))
    assert made.block_jobs == []
    assert made.event_jobs == [BlockRange(117, 117)]
    assert await queued(database, INDEX_EVENTS) == [BlockRange(117, 117)]
    again = await plan(database, blocks=BlockRange(100, 129))
    assert again.event_jobs == []


async def test_events_that_a_queued_job_will_bring_are_not_queued_twice(
    database: Database,
) -> None:
    await store(database, range(100, 110), events=False)
    async with database.connection() as conn:
        await backlog.enqueue(
            conn, kind=INDEX_BLOCKS, payloads=[{"from": 100, "to": 103}]
        )
        await backlog.enqueue(
            conn,
            kind=INDEX_EVENTS,
            payloads=[{"height": 104, "hash": "0x00"}, {"from": 105, "to": 106}],
        )
    made = await plan(database, blocks=BlockRange(100, 109))
    assert made.event_jobs == [BlockRange(107, 109)]


@pytest.mark.parametrize("dry_run", [False, True])
async def test_what_a_job_stores_while_it_is_planned_is_not_queued_again(
    database: Database, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    await store(database, range(0, 3), events=False)
    async with database.connection() as conn:
        await backlog.enqueue(
            conn, kind=INDEX_EVENTS, payloads=[{"from": 0, "to": 2}], priority=20
        )
    look = blocks.without_events
    # A plan looks again under its lock, a dry run does not.
    looks = iter([dry_run, True])

    async def look_and_let_it_end(conn: Connection, where: BlockRange) -> list[int]:
        found = await look(conn, where)
        if next(looks):
            await execute(database, "delete from indexer.jobs")
        return found

    monkeypatch.setattr(blocks, "without_events", look_and_let_it_end)
    made = await plan(database, blocks=BlockRange(0, 2), dry_run=dry_run)
    assert made.event_jobs == []
    assert await queued(database, INDEX_EVENTS) == []


async def test_failed_jobs_count_as_queued_and_are_named(database: Database) -> None:
    await plan(database, blocks=BlockRange(0, 29_999))
    await execute(
        database,
        "update indexer.jobs set status = 'failed', last_error = 'poison' "
        "where payload ->> 'from' = '10000'",
    )
    made = await plan(database, blocks=BlockRange(0, 29_999))
    assert made.block_jobs == []
    assert [(each.blocks, each.last_error) for each in made.failed] == [
        (BlockRange(10_000, 19_999), "poison")
    ]


async def test_payloads_of_other_programs_do_not_stop_a_plan(
    database: Database,
) -> None:
    for payload in (
        "[]",
        "{}",
        '{"from": "a", "to": "b"}',
        '{"from": 1e400, "to": 2}',
        '{"from": 5, "to": 1}',
        '{"height": null}',
        "null",
    ):
        await execute(
            database,
            "insert into indexer.jobs (kind, payload) "
            f"values ('index_blocks', '{payload}')",
        )
    made = await plan(database, blocks=BlockRange(0, 9_999))
    assert made.block_jobs == [BlockRange(0, 9_999)]


async def test_what_was_planned_is_remembered(database: Database) -> None:
    await plan(database, blocks=BlockRange(0, 9_999))
    await plan(database, blocks=BlockRange(5_000, 20_000))
    async with database.connection() as conn:
        assert await chain.planned(conn) == [BlockRange(0, 20_000)]
