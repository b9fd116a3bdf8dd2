from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from indexer.config import Config
from indexer.db.connection import Database
from indexer.jobs import endings
from indexer.jobs.workers import Identity, see
from indexer.services.maintain import maintain
from tests.support.jobs import add, claim, claim_one, expire, queue, record, rows, until
from tests.support.program import run

OLD = "jobs_history_20200101"


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with queue(database_url) as opened:
        yield opened


async def test_one_pass_does_everything_that_is_due(database: Database) -> None:
    lost, failing, failed, kept = await add(database, 4)
    jobs = await claim(database, 4)
    async with database.connection() as conn:
        for job in jobs[2:]:
            await endings.fail(conn, job_id=job.id, token=job.claim_token, error="no")
        await see(conn, identity=Identity.of_this_process(role="work", name="dead"))
    await expire(database, lost, failing)
    await rows(database, "update {s}.workers set last_seen_at = now() - interval '1 d'")
    await rows(database, "update {s}.jobs set lost_leases = 19 where id = %s", failing)
    await rows(
        database,
        "update {s}.jobs set last_error_at = now() - interval '31 days' where id = %s",
        failed,
    )
    await rows(
        database,
        f"create table {{s}}.{OLD} (like {{s}}.jobs_history including all)",
    )
    await rows(
        database,
        f"alter table {{s}}.jobs_history attach partition {{s}}.{OLD} for values"
        " from ('2020-01-01 00:00+00') to ('2020-01-02 00:00+00')",
    )
    [[newest]] = await rows(
        database,
        "select max(inhrelid::regclass::text) from pg_inherits"
        " where inhparent = '{s}.jobs_history'::regclass",
    )
    await rows(database, f"drop table {newest}")

    # The server of these tests has been up for longer than that.
    done = await maintain(database, Config(lease="1s", max_lost_leases=20))  # type: ignore[arg-type]

    assert (done.jobs_reaped, done.jobs_failed, done.jobs_aged_out) == (2, 1, 1)
    assert done.history_made == [newest.removeprefix("indexer.")]
    assert done.history_dropped == [OLD]
    assert done.workers_retired == ["dead"]
    assert "jobs_history" in done.analyzed and "blocks" in done.analyzed
    assert [(await record(database, job_id)).status for job_id in (lost, failing)] == [
        "pending",
        "failed",
    ]
    aged = await record(database, failed)
    assert (aged.status, aged.last_error) == ("failed", "no")
    assert aged.finished_at is not None
    assert (await record(database, kept)).finished_at is None


async def test_q6_a_pass_right_after_an_outage_revokes_nobody_who_renews(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    lost, held = await add(database, 2)
    await claim(database, 2)
    await expire(database, lost, held)

    async def renew() -> None:
        async def has_said_so() -> bool:
            return bool(caplog.records)

        await until(has_said_so)
        await rows(
            database,
            "update {s}.jobs set locked_until = now() + interval '1 minute'"
            " where id = %s",
            held,
        )

    renewing = asyncio.create_task(renew())
    done = await maintain(database, Config(lease="1s"))  # type: ignore[arg-type]
    await renewing

    assert done.jobs_reaped == 1
    assert (await record(database, held)).status == "running"
    assert (await record(database, lost)).status == "pending"
    assert "2 claims are past their lease" in caplog.text


async def test_chain_partitions_are_made_ahead_of_the_highest_block(
    database: Database,
) -> None:
    assert (await maintain(database, Config())).chain_made == []
    await rows(
        database,
        "create table {s}.blocks_p000000 partition of {s}.blocks"
        " for values from (0) to (1000000)",
    )
    await rows(
        database,
        "insert into {s}.blocks (number, hash, parent_hash)"
        " values (950000, '\\x01', '\\x00')",
    )

    made = (await maintain(database, Config())).chain_made

    assert "blocks_p000001" in made and "logs_p000001" in made
    assert (await maintain(database, Config())).chain_made == []


async def test_statistics_of_parents_are_renewed_when_they_are_old(
    database: Database,
) -> None:
    [job_id] = await add(database)
    job = await claim_one(database)
    async with database.connection() as conn:
        await endings.complete(conn, job_id=job_id, token=job.claim_token)
    await maintain(database, Config())
    assert await rows(
        database,
        "select reltuples::integer from pg_class"
        " where oid = '{s}.jobs_history'::regclass",
    ) == [(1,)]


async def test_the_command_says_what_it_did(database_url: str) -> None:
    told = run("maintain", "--database-url", database_url)
    assert told.returncode == 0, told.stderr
    assert "expired claims taken back" in told.stdout
    again = run("maintain", "--json", "--database-url", database_url)
    assert json.loads(again.stdout)["history_made"] == []
