from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from indexer.db.connection import Database
from indexer.jobs import endings
from indexer.jobs.history import drop_old, ensure_history
from tests.support.jobs import add, claim_one, queue, rows, until

MONTH = timedelta(days=30)
MILLISECOND = timedelta(milliseconds=1)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with queue(database_url) as opened:
        yield opened


async def partitions(database: Database) -> list[str]:
    return [
        row[0]
        for row in await rows(
            database,
            "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid"
            " where i.inhparent = '{s}.jobs_history'::regclass order by 1",
        )
    ]


async def make_old_day(database: Database, day: str, *, attach: bool = True) -> str:
    name = f"jobs_history_{day.replace('-', '')}"
    await rows(
        database, f"create table {{s}}.{name} (like {{s}}.jobs_history including all)"
    )
    if attach:
        await rows(
            database,
            f"alter table {{s}}.jobs_history attach partition {{s}}.{name} for values"
            f" from ('{day} 00:00+00') to (timestamptz '{day} 00:00+00' + '1 day')",
        )
    return name


async def exists(database: Database, name: str) -> bool:
    [[found]] = await rows(database, "select to_regclass(%s)", f"indexer.{name}")
    return found is not None


async def test_partitions_are_made_for_today_and_three_days_ahead_once(
    database: Database,
) -> None:
    found = await partitions(database)
    assert len(found) == 4
    [[today]] = await rows(
        database, "select to_char(now() at time zone 'UTC', 'YYYYMMDD')"
    )
    assert found[0] == f"jobs_history_{today}"
    async with database.connection() as conn:
        assert await ensure_history(conn) == []


async def test_q8_days_are_utc_whatever_the_session_says(database: Database) -> None:
    async with database.connection() as conn:
        await conn.execute(b"set timezone = 'Pacific/Kiritimati'")
        assert await ensure_history(conn) == []
        [job_id] = await add(database)
        job = await claim_one(database)
        await endings.complete(conn, job_id=job_id, token=job.claim_token)
        await conn.execute(b"reset timezone")
    [[found]] = await rows(
        database,
        "select tableoid::regclass::text like '%%jobs_history_' ||"
        " to_char(finished_at at time zone 'UTC', 'YYYYMMDD')"
        " from {s}.jobs_history where %s",
        True,
    )
    assert found


async def test_any_number_of_workers_make_partitions_at_once(
    database_url: str,
) -> None:
    async with Database(database_url, schema="indexer", size=6) as database:

        async def make() -> list[str]:
            async with database.connection() as conn:
                return await ensure_history(conn)

        made = await asyncio.gather(*(make() for _ in range(6)))
        assert sorted(name for names in made for name in names) == await partitions(
            database
        )


async def test_only_days_older_than_the_retention_are_dropped(
    database: Database,
) -> None:
    before = await partitions(database)
    old = await make_old_day(database, "2020-01-01")
    stray = await make_old_day(database, "2020-01-02", attach=False)

    async with database.connection() as conn:
        assert await drop_old(conn, retention=MONTH) == [old, stray]

    assert await partitions(database) == before
    assert not await exists(database, old)
    assert not await exists(database, stray)


async def test_dropping_waits_for_readers_without_standing_in_front_of_others(
    database: Database,
) -> None:
    old = await make_old_day(database, "2020-01-01")
    [job_id] = await add(database)
    job = await claim_one(database)

    async def drop() -> list[str]:
        async with database.connection() as conn:
            return await drop_old(conn, retention=MONTH)

    async def detach_waits() -> bool:
        return bool(
            await rows(
                database,
                "select 1 from pg_stat_activity where query like '%%detach partition%%'"
                " and wait_event = 'virtualxid' and %s",
                True,
            )
        )

    async with database.transaction() as reader:
        await reader.execute(b"select count(*) from indexer.jobs_history")
        dropping = asyncio.create_task(drop())
        await until(detach_waits)
        # Readers and completions pass by the detach that waits.
        assert await rows(database, "select count(*) from {s}.jobs_history") == [(0,)]
        async with database.transaction() as conn:
            await endings.complete(conn, job_id=job_id, token=job.claim_token)
    assert await dropping == [old]


async def test_r14_a_reader_in_a_loop_waits_for_no_partition_that_is_dropped(
    database: Database,
) -> None:
    old = [await make_old_day(database, f"2020-01-0{day}") for day in range(1, 6)]
    is_dropped = asyncio.Event()

    async def drop() -> list[str]:
        async with database.connection() as conn:
            dropped = await drop_old(conn, retention=MONTH)
        is_dropped.set()
        return dropped

    async def read() -> int:
        reads = 0
        while not is_dropped.is_set():
            # Whoever has to wait at all for a lock fails.
            async with database.transaction(lock_timeout=MILLISECOND) as conn:
                await conn.execute(b"select count(*) from indexer.jobs_history")
            reads += 1
        return reads

    dropped, reads = await asyncio.gather(drop(), read())

    assert dropped == old
    assert reads > 0


async def test_an_interrupted_detach_is_finished_by_the_next_pass(
    database: Database,
) -> None:
    old = await make_old_day(database, "2020-01-01")

    async def detach() -> None:
        await rows(
            database,
            f"alter table {{s}}.jobs_history detach partition {{s}}.{old} concurrently",
        )

    async def is_pending() -> bool:
        return bool(
            await rows(database, "select 1 from pg_inherits where inhdetachpending")
        )

    async with database.transaction() as reader:
        await reader.execute(b"select count(*) from indexer.jobs_history")
        detaching = asyncio.create_task(detach())
        await until(is_pending)
        detaching.cancel()
        await asyncio.gather(detaching, return_exceptions=True)
    assert await is_pending()

    async with database.connection() as conn:
        assert await drop_old(conn, retention=MONTH) == [old]
    assert not await exists(database, old)
