from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random

import pytest

from indexer.db.connection import Database
from indexer.jobs.listen import WakeUps
from indexer.jobs.patience import keep_going
from tests.support.jobs import add, queue, rows, until
from tests.support.pgbouncer import run_pgbouncer
from tests.support.proxy import silenceable

LONG = 60.0


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with queue(database_url) as opened:
        yield opened


@asynccontextmanager
async def listening(subject: WakeUps) -> AsyncIterator[WakeUps]:
    task = asyncio.create_task(keep_going("listening", subject.run, random=Random(1)))
    try:
        yield subject
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_q9_listening_is_followed_by_one_look_before_anything_is_notified(
    database: Database,
) -> None:
    async with listening(WakeUps(database.url, schema="indexer")) as subject:
        assert await subject.wait(LONG) == "listening"
        assert subject.is_listening


async def test_q9_a_commit_that_enqueues_wakes_and_a_rollback_does_not(
    database: Database,
) -> None:
    async with listening(WakeUps(database.url, schema="indexer")) as subject:
        await subject.wait(LONG)
        with pytest.raises(RuntimeError):
            async with database.transaction() as conn:
                await conn.execute(
                    b"insert into indexer.jobs (kind, payload) values ('x', '{}')"
                )
                raise RuntimeError
        assert await subject.wait(0.05) == "timeout"
        await add(database, 1000)
        assert await subject.wait(LONG) == "notified"
        assert await subject.wait(0.05) == "timeout"


async def test_q9_notifications_of_another_schema_wake_nobody(
    database: Database,
) -> None:
    async with listening(WakeUps(database.url, schema="another")) as subject:
        await subject.wait(LONG)
        await add(database)
        await rows(database, "select pg_notify('jobs_ready', 'another_one')")
        assert await subject.wait(0.05) == "timeout"
        await rows(database, "select pg_notify('jobs_ready', 'another')")
        assert await subject.wait(LONG) == "notified"


async def test_q9_a_dead_connection_is_made_anew_and_looked_behind(
    database: Database,
) -> None:
    async with listening(WakeUps(database.url, schema="indexer")) as subject:
        await subject.wait(LONG)
        await rows(
            database,
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'indexer listen'"
            " and datname = current_database()",
        )
        assert await subject.wait(LONG) == "listening"
        await add(database)
        assert await subject.wait(LONG) == "notified"


async def test_q9_a_subscription_that_is_gone_is_noticed_by_the_ping(
    database: Database,
) -> None:
    subject = WakeUps(
        database.url, schema="indexer", ping_interval=timedelta(milliseconds=10)
    )

    async def pinged() -> bool:
        return bool(
            await rows(
                database,
                "select 1 from pg_stat_activity where application_name ="
                " 'indexer listen' and query like '%%pg_listening_channels%%'"
                " and datname = current_database() and %s",
                True,
            )
        )

    async with listening(subject):
        await subject.wait(LONG)
        await until(pinged)
        assert subject.is_listening


async def test_q9_a_silent_connection_is_given_up(database: Database) -> None:
    async with silenceable(database.url) as (url, silence):
        subject = WakeUps(
            url, schema="indexer", ping_interval=timedelta(milliseconds=10)
        )

        async def noticed() -> bool:
            return not subject.is_listening

        async with listening(subject):
            assert await subject.wait(LONG) == "listening"
            silence.set()
            await until(noticed, "the end of the silent connection")


async def test_q9_behind_a_pooler_it_polls_and_says_so_once(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="indexer")
    with run_pgbouncer(database.url) as pooled:
        subject = WakeUps(pooled, schema="indexer")

        async def has_said_so() -> bool:
            return "LISTEN does not work here" in caplog.text

        async with listening(subject):
            await until(has_said_so)
            assert not subject.is_listening
            await add(database)
            assert await subject.wait(0.05) == "timeout"
    assert caplog.text.count("LISTEN does not work here") == 1
