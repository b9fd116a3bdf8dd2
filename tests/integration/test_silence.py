"""Connections that are open and say nothing, and transactions that are left open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import psycopg
import pytest

from indexer.db.connection import Database, connect_sync
from indexer.errors import DatabaseUnavailable
from indexer.jobs.execution import Execution
from indexer.jobs.worker import Worker, WorkerSettings
from tests.support.jobs import KIND, add, claim_one, queue, rows, running, until
from tests.support.pgbouncer import run_pgbouncer
from tests.support.proxy import Path

SHORT = timedelta(milliseconds=300)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with queue(database_url) as opened:
        yield opened


async def test_q12_a_plain_statement_waits_for_no_answer_for_ever(
    database: Database,
) -> None:
    with Path(database.url) as path:
        async with Database(
            path.url, schema="indexer", reply_timeout=SHORT
        ) as disturbed:
            async with disturbed.connection() as conn:
                path.silence(swallow=True)
                with pytest.raises(psycopg.OperationalError, match="no answer within"):
                    await conn.execute(b"select 1")
                assert conn.closed
            path.heal()
            assert await rows(disturbed, "select 1") == [(1,)]


async def test_q12_what_is_given_up_while_it_waits_for_a_lock_leaves_no_session_behind(
    database: Database,
) -> None:
    [job_id] = await add(database)

    async def none_waits() -> bool:
        [[waiting]] = await rows(
            database,
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and wait_event_type = 'Lock'",
        )
        return int(waiting) == 0

    touch = b"update indexer.jobs set snoozes = 0"
    beat = connect_sync(database.url, schema="indexer")
    beat.reply_timeout = SHORT.total_seconds()
    async with database.transaction() as holder:
        await holder.execute(b"lock table indexer.jobs in access exclusive mode")
        async with database.connection(reply_timeout=SHORT) as conn:
            with pytest.raises(psycopg.OperationalError, match="no answer within"):
                await conn.execute(touch)
        with pytest.raises(psycopg.OperationalError, match="no answer within"):
            await asyncio.to_thread(beat.execute, touch)
        await until(none_waits)
    assert (await claim_one(database)).id == job_id


async def test_q12_a_statement_that_is_cancelled_on_a_silent_connection_ends(
    database: Database,
) -> None:
    with Path(database.url) as path:
        async with Database(
            path.url, schema="indexer", reply_timeout=SHORT
        ) as disturbed:
            has_asked = asyncio.Event()

            async def ask() -> None:
                async with disturbed.connection() as conn:
                    path.silence(swallow=True)
                    has_asked.set()
                    await conn.execute(b"select 1")

            asking = asyncio.create_task(ask())
            await has_asked.wait()
            asking.cancel()
            with pytest.raises((asyncio.CancelledError, DatabaseUnavailable)):
                await asyncio.wait_for(asking, 30)
            path.heal()


async def test_q12_a_worker_behind_a_silent_path_goes_on_when_it_is_healed(
    database: Database,
) -> None:
    async def handler(execution: Execution) -> None:
        async with execution.finish():
            pass

    async def is_idle() -> bool:
        return not await rows(database, "select 1 from {s}.jobs")

    with Path(database.url) as path:
        async with Database(
            path.url, schema="indexer", reply_timeout=SHORT
        ) as disturbed:
            subject = Worker(
                disturbed,
                handlers={KIND: handler},
                settings=WorkerSettings(poll_interval=SHORT),
                listen_url=database.url,
            )
            async with running(subject):
                await add(database, 5)
                await until(is_idle)
                path.silence(swallow=True)
                await add(database, 5)
                await asyncio.sleep(2 * SHORT.total_seconds())
                assert not await is_idle()
                path.heal()
                await until(is_idle)


@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "through a pooler"])
async def test_q4_a_transaction_that_is_left_open_is_ended_by_the_server(
    database: Database, pooled: bool
) -> None:
    with run_pgbouncer(database.url, pool_size=2) as pooler:
        url = pooler if pooled else database.url
        async with Database(url, schema="indexer") as subject:
            with pytest.raises(DatabaseUnavailable):
                async with subject.transaction(idle_timeout=SHORT) as conn:
                    await conn.execute(b"select from indexer.jobs for update")
                    await asyncio.sleep(4 * SHORT.total_seconds())
                    await conn.execute(b"select 1")
            # Set for that transaction alone: the next client has the server's own.
            async with subject.connection() as conn:
                cursor = await conn.execute(
                    b"select current_setting('idle_in_transaction_session_timeout'),"
                    b" current_setting('statement_timeout')"
                )
                assert await cursor.fetchall() == [("0", "0")]


async def test_q4_a_stalled_chunk_gives_its_job_free_within_half_a_lease(
    database: Database,
) -> None:
    [job_id] = await add(database)
    lease = timedelta(seconds=2)
    job = await claim_one(database, lease=lease)
    subject = Execution(job, database=database, lease=lease)

    async def is_free() -> bool:
        return bool(
            await rows(
                database,
                "select 1 from {s}.jobs where id = %s for update skip locked",
                job_id,
            )
        )

    with pytest.raises(DatabaseUnavailable):
        async with subject.chunk() as conn:
            assert not await is_free()
            cursor = await conn.execute(
                b"select current_setting('idle_in_transaction_session_timeout')"
            )
            assert await cursor.fetchall() == [("1s",)]
            await until(is_free, "the end of the stalled transaction")
            await conn.execute(b"select 1")
