from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from random import Random

import psycopg
import pytest

from indexer.db.connection import Connection, Database
from indexer.db.migrate import migrate
from indexer.errors import ClaimLost
from indexer.jobs import endings
from indexer.jobs import reaper as reaper_module
from indexer.jobs.claims import fence
from indexer.jobs.observer import NoObserver
from indexer.jobs.reaper import Reaped, Reaper, end_silent_copies, lapsed_claims, reap
from indexer.jobs.settings import WorkerSettings
from indexer.jobs.upkeep import Upkeep
from indexer.tasks import end_tasks
from tests.support.jobs import (
    KIND,
    add,
    claim,
    claim_one,
    expire,
    make_due,
    queue,
    record,
    rows,
)
from tests.support.postgres import PrivateServer

# Shorter than the test server has been up.
LEASE = timedelta(milliseconds=100)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with queue(database_url) as opened:
        yield opened


async def sweep(database: Database, *, max_lost_leases: int = 20) -> list[Reaped]:
    async with database.connection() as conn:
        return await reap(conn, lease=LEASE, max_lost_leases=max_lost_leases, batch=4)


async def test_q6_only_an_expired_lease_is_taken_back(database: Database) -> None:
    first, second = await add(database, 2)
    await claim(database, 2)
    await expire(database, first)

    assert await sweep(database) == [(first, KIND, "pending", 1)]

    taken, kept = await record(database, first), await record(database, second)
    assert (taken.status, taken.locked_by, taken.locked_until) == (
        "pending",
        None,
        None,
    )
    [[token]] = await rows(
        database, "select claim_token from {s}.jobs where id = %s", first
    )
    assert token is None
    assert (taken.lost_leases, taken.errors, taken.attempts) == (1, 0, 1)
    assert (kept.status, kept.lost_leases) == ("running", 0)


async def test_q6_what_runs_without_a_lease_is_taken_back(database: Database) -> None:
    [job_id] = await add(database)
    await rows(database, "update {s}.jobs set status = 'running'")

    async with database.connection() as conn:
        assert await lapsed_claims(conn) == 1
    assert await sweep(database) == [(job_id, KIND, "pending", 1)]


async def test_q6_who_was_reaped_completes_nothing(database: Database) -> None:
    [job_id] = await add(database)
    job = await claim_one(database)
    await expire(database, job_id)
    await sweep(database)

    with pytest.raises(ClaimLost):
        async with database.connection() as conn:
            await endings.complete(conn, job_id=job_id, token=job.claim_token)


@pytest.mark.parametrize(
    ("lost", "least", "most"),
    [(0, 30, 90), (1, 60, 180), (2, 120, 360), (6, 1920, 3600), (18, 3600, 3600)],
)
async def test_q6_a_reaped_job_waits_longer_each_time(
    database: Database, lost: int, least: int, most: int
) -> None:
    ids = await add(database, 200)
    await claim(database, 200)
    await rows(database, "update {s}.jobs set lost_leases = %s", lost)
    await expire(database, *ids)

    await sweep(database)

    waits = [
        row[0].total_seconds()
        for row in await rows(database, "select run_at - now() from {s}.jobs")
    ]
    assert least - 15 < min(waits) and max(waits) <= most
    if least < most:
        middle = (least + min(most, 3 * least)) / 2
        assert any(wait < middle for wait in waits)
        assert any(wait > middle for wait in waits)


@pytest.mark.parametrize(
    ("errors", "least", "most"),
    [(0, 30, 90), (1, 60, 180), (2, 120, 360), (25, 3600, 3600)],
)
async def test_q6_an_error_given_back_waits_by_the_same_figures(
    database: Database, errors: int, least: int, most: int
) -> None:
    await add(database, 100)
    await rows(database, "update {s}.jobs set errors = %s", errors)
    async with database.connection() as conn:
        for job in await claim(database, 100):
            status = await endings.retry(
                conn,
                job_id=job.id,
                token=job.claim_token,
                error="no",
                max_errors=1000,
            )
            assert status == "pending"

    waits = [
        row[0].total_seconds()
        for row in await rows(database, "select run_at - last_error_at from {s}.jobs")
    ]
    assert least - 1 < min(waits) and max(waits) <= most + 1
    if least < most:
        assert min(waits) < (least + most) / 2 < max(waits)


async def test_q6_the_last_lost_lease_fails_the_job_with_its_reason(
    database: Database,
) -> None:
    [job_id] = await add(database)
    for _ in range(3):
        await make_due(database)
        await claim_one(database, worker="unlucky")
        await expire(database, job_id)
        await sweep(database, max_lost_leases=3)

    failed = await record(database, job_id)
    assert (failed.status, failed.lost_leases) == ("failed", 3)
    assert failed.last_error == "lost its lease 3 times, last by worker unlucky"
    assert await claim(database) == []


async def test_q6_a_pass_goes_on_until_a_batch_is_short(database: Database) -> None:
    ids = await add(database, 11)
    await claim(database, 11)
    await expire(database, *ids)

    assert sorted(each.job_id for each in await sweep(database)) == ids


async def test_q6_two_reapers_take_no_job_twice_and_pass_locked_rows(
    database: Database,
) -> None:
    ids = await add(database, 60)
    await claim(database, 60)
    await expire(database, *ids)
    async with database.transaction() as conn:
        await conn.execute(
            b"select from indexer.jobs where id = %s for update", [ids[5]]
        )
        passes = await asyncio.gather(*(sweep(database) for _ in range(4)))

    taken = [each.job_id for swept in passes for each in swept]
    assert len(taken) == len(set(taken))
    assert ids[5] not in taken
    assert sorted([*taken, ids[5]]) == ids


async def test_q6_nobody_is_reaped_within_a_lease_of_the_servers_start(
    database: Database,
) -> None:
    [job_id] = await add(database)
    await claim_one(database)
    await expire(database, job_id)

    async with database.connection() as conn:
        for lease, expected in ((timedelta(days=365), 0), (LEASE, 1)):
            taken = await reap(conn, lease=lease, max_lost_leases=20)
            assert len(taken) == expected


async def test_q6_a_restart_of_the_server_revokes_nobody(
    private_server: PrivateServer,
) -> None:
    await migrate(private_server.url, schema="indexer")
    async with queue(private_server.url) as database:
        [job_id] = await add(database)
        await claim_one(database)
        await expire(database, job_id)
    private_server.restart("immediate")
    async with queue(private_server.url) as database, database.connection() as conn:
        lease = timedelta(minutes=10)
        assert await reap(conn, lease=lease, max_lost_leases=20) == []
        assert (await record(database, job_id)).status == "running"


async def test_q6_a_reaper_that_was_cut_off_waits_a_lease(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(reaper_module, "monotonic", lambda: now)
    [job_id] = await add(database)
    await claim_one(database)
    await expire(database, job_id)
    subject = Reaper(lease=LEASE, max_lost_leases=20)
    subject.hold()

    async with database.connection() as conn:
        now += 0.9 * LEASE.total_seconds()
        assert await subject.tick(conn) == []
        now += 0.2 * LEASE.total_seconds()
        assert [each.job_id for each in await subject.tick(conn)] == [job_id]


@pytest.mark.parametrize("straight", [True, False])
async def test_q6_who_is_stopped_in_the_middle_of_a_copy_keeps_nothing(
    database: Database, straight: bool
) -> None:
    [job_id] = await add(database, 1)
    job = await claim_one(database)
    await expire(database, job_id)
    async with AsyncExitStack() as stack:
        stopped = await stack.enter_async_context(
            await database.connect(application="indexer tests")
        )
        await stopped.execute(b"begin")
        await fence(stopped, job_id=job_id, token=job.claim_token, lease=LEASE)
        target = b'"indexer"."logs"'
        if not straight:
            target = b'"pg_temp"."stage_logs"'
            await stopped.execute(
                b"create temporary table stage_logs (like indexer.logs)"
            )
        copy = stopped.cursor().copy(b"copy " + target + b" from stdin")
        await copy.__aenter__()
        reaper = Reaper(lease=LEASE, max_lost_leases=20)
        taken: list[Reaped] = []
        async with asyncio.timeout(20), database.connection() as conn:
            while not taken:
                taken = await reaper.tick(conn)
                await asyncio.sleep(0.01)
        assert taken == [(job_id, KIND, "pending", 1)]
        # A pooler adds an answer of its own, which psycopg does not expect.
        with pytest.raises((psycopg.OperationalError, ValueError)):
            await copy.__aexit__(None, None, None)


async def test_a_copy_that_goes_on_is_left_alone(database: Database) -> None:
    async with database.connection() as conn, await database.connect() as busy:
        # Now and then the server waits for its client.
        async with busy.cursor().copy(b"copy indexer.logs from stdin"):
            assert await end_silent_copies(conn, silence=timedelta(minutes=1)) == 0
        async with busy.cursor().copy(b"copy (select 1) to stdout") as other:
            assert await end_silent_copies(conn, silence=timedelta(0)) == 0
            assert [bytes(each) async for each in other]


async def test_q6_a_worker_that_starts_may_follow_an_outage_and_waits_a_lease(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server started long ago: a standby was promoted, or a network mended."""
    now = 1000.0
    ticks: asyncio.Queue[list[int]] = asyncio.Queue()
    tick = Reaper.tick

    async def observed(self: Reaper, conn: Connection) -> list[Reaped]:
        reaped = await tick(self, conn)
        ticks.put_nowait([each.job_id for each in reaped])
        return reaped

    monkeypatch.setattr(reaper_module, "monotonic", lambda: now)
    monkeypatch.setattr(Reaper, "tick", observed)
    [job_id] = await add(database)
    await claim_one(database)
    lease = timedelta(milliseconds=20)
    await expire(database, job_id)
    upkeep = Upkeep(
        database,
        WorkerSettings(lease=lease),
        observer=NoObserver(),
        random=Random(1),
    )
    reaping = asyncio.create_task(upkeep.reap())
    try:
        for _ in range(3):
            assert await ticks.get() == []
        now += lease.total_seconds()
        while not (taken := await ticks.get()):
            pass
        assert taken == [job_id]
    finally:
        await end_tasks(reaping)


async def test_the_limit_of_errors_fails_a_job_with_its_reason(
    database: Database,
) -> None:
    [job_id] = await add(database)
    for count in range(1, 6):
        await make_due(database)
        job = await claim_one(database)
        async with database.connection() as conn:
            status = await endings.retry(
                conn,
                job_id=job_id,
                token=job.claim_token,
                error=f"reason {count}",
                max_errors=5,
            )
        assert status == ("failed" if count == 5 else "pending")

    failed = await record(database, job_id)
    assert (failed.errors, failed.attempts) == (5, 5)
    assert failed.last_error == "reason 5"


async def test_q7_snooze_and_release_give_the_attempt_back(database: Database) -> None:
    [job_id] = await add(database)
    job = await claim_one(database)
    async with database.connection() as conn:
        await endings.snooze(
            conn,
            job_id=job_id,
            token=job.claim_token,
            delay=timedelta(minutes=7),
            error="the node is down",
        )
    snoozed = await record(database, job_id)
    assert (snoozed.attempts, snoozed.errors, snoozed.snoozes) == (0, 0, 1)
    assert snoozed.last_error == "the node is down"
    [[wait]] = await rows(database, "select run_at - now() from {s}.jobs")
    assert timedelta(minutes=6) < wait <= timedelta(minutes=7)

    await make_due(database)
    job = await claim_one(database)
    due = (await record(database, job_id)).run_at
    async with database.connection() as conn:
        await endings.release(conn, job_id=job_id, token=job.claim_token)
    released = await record(database, job_id)
    assert (released.attempts, released.errors, released.snoozes) == (0, 0, 1)
    assert released.run_at == due
    assert (await claim_one(database)).id == job_id
