from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from time import monotonic
from uuid import UUID, uuid4

import psycopg
import pytest

from indexer.db.connection import Database
from indexer.jobs.execution import Execution
from indexer.jobs.heartbeat import Beat, HeartbeatThread
from indexer.jobs.job import Job
from indexer.jobs.observer import Ending
from indexer.jobs.workers import Identity, retire, see
from tests.support.jobs import (
    LEASE,
    add,
    claim,
    claim_one,
    expire,
    queue,
    rows,
    until,
    worker,
)
from tests.support.proxy import silenceable

INTERVAL = timedelta(milliseconds=20)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with queue(database_url) as opened:
        yield opened


class Told:
    """Collects what a heartbeat tells, in its thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._beats: list[Beat] = []

    def __call__(self, beat: Beat) -> None:
        with self._lock:
            self._beats.append(beat)

    def of(self, name: str) -> set[tuple[int, UUID]]:
        with self._lock:
            return {claim for beat in self._beats for claim in getattr(beat, name)}

    def failures(self) -> int:
        with self._lock:
            return sum(beat.failed for beat in self._beats)


@contextmanager
def beating(
    database: Database,
    told: Told,
    *jobs: Job,
    lease: timedelta = LEASE,
    url: str | None = None,
) -> Iterator[HeartbeatThread]:
    thread = HeartbeatThread(
        url or database.url,
        schema=database.schema,
        identity=Identity.of_this_process(role="work", name="beating"),
        lease=lease,
        interval=INTERVAL,
        tell=told,
    )
    for job in jobs:
        thread.add(job.id, job.claim_token, sent_at=monotonic())
    thread.start()
    try:
        yield thread
    finally:
        thread.stop()


async def _is_renewed(database: Database, job_id: int) -> bool:
    [[renewed]] = await rows(
        database, "select locked_until > now() from {s}.jobs where id = %s", job_id
    )
    return bool(renewed)


async def test_q5_one_thread_renews_every_claim_and_the_workers_entry(
    database: Database,
) -> None:
    ids = await add(database, 3)
    jobs = await claim(database, 3)
    await expire(database, *ids)
    told = Told()

    with beating(database, told, *jobs):
        for job_id in ids:
            await until(partial(_is_renewed, database, job_id))
        [[name]] = await rows(database, "select name from {s}.workers")
    assert name == "beating"
    assert not told.of("lost")


async def test_q2_a_stale_heartbeat_renews_nothing_and_is_told_so(
    database: Database,
) -> None:
    [job_id] = await add(database)
    job = await claim_one(database)
    await rows(database, "update {s}.jobs set claim_token = %s", uuid4())
    await expire(database, job_id)
    told = Told()

    async def is_told() -> bool:
        return told.of("lost") == {(job_id, job.claim_token)}

    with beating(database, told, job):
        await until(is_told)
    assert not await _is_renewed(database, job_id)


async def test_q5_a_row_that_a_chunk_has_locked_is_neither_waited_for_nor_lost(
    database: Database,
) -> None:
    locked, free = await add(database, 2)
    jobs = await claim(database, 2)
    subject = Execution(jobs[0], database=database, lease=LEASE)
    told = Told()

    with beating(database, told, *jobs):
        async with subject.chunk():
            for _ in range(3):
                await expire(database, free)
                await until(lambda: _is_renewed(database, free))
        await expire(database, locked)
        await until(lambda: _is_renewed(database, locked))
    assert told.of("lost") == set()


async def test_q5_a_handler_that_blocks_the_event_loop_loses_no_claim(
    database: Database,
) -> None:
    [job_id] = await add(database)
    ended: list[str] = []

    async def handler(execution: Execution) -> None:
        # Nothing else runs in this loop until another thread has seen the lease
        # renewed although it had expired, three times.
        for _ in range(3):
            _wait_until_renewed(database.url, job_id)
        ended.append("renewed")

    await worker(
        database,
        handler,
        lease=timedelta(seconds=1),
        heartbeat=timedelta(milliseconds=50),
    ).run(drain=True)

    assert ended == ["renewed"]
    assert await rows(
        database, "select status, lost_leases, attempts from {s}.jobs_history"
    ) == [("done", 0, 1)]


def _wait_until_renewed(url: str, job_id: int) -> None:
    # What it prepared would be another client's behind a pooler.
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as conn:
        conn.execute(
            "update indexer.jobs set locked_until = now() - interval '1 s'"
            " where id = %s",
            [job_id],
        )
        end = monotonic() + 60
        while True:
            row = conn.execute(
                "select locked_until > now() from indexer.jobs where id = %s", [job_id]
            ).fetchone()
            if row is not None and row[0]:
                return
            assert monotonic() < end, "the lease was not renewed"


async def test_q5_a_failed_heartbeat_is_tried_again_and_is_no_loss(
    database: Database,
) -> None:
    [job_id] = await add(database)
    job = await claim_one(database)
    told = Told()

    async def has_failed() -> bool:
        await rows(
            database,
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'indexer heartbeat'"
            " and datname = current_database()",
        )
        return told.failures() > 1

    with beating(database, told, job):
        await until(has_failed)
        await expire(database, job_id)
        await until(lambda: _is_renewed(database, job_id))
    assert told.of("lost") == set()


async def test_q5_a_connection_that_gives_no_answer_is_made_anew(
    database: Database,
) -> None:
    [job_id] = await add(database)
    job = await claim_one(database)
    told = Told()

    async def has_failed() -> bool:
        return told.failures() > 0

    async with silenceable(database.url) as (url, silent):
        with beating(database, told, job, url=url):
            await expire(database, job_id)
            await until(lambda: _is_renewed(database, job_id))
            silent.set()
            await until(has_failed)
            silent.clear()
            await expire(database, job_id)
            await until(lambda: _is_renewed(database, job_id))
    assert told.of("lost") == set()


async def test_q5_a_lease_over_by_our_own_clock_is_told_as_lapsed_not_as_lost(
    database: Database,
) -> None:
    await add(database)
    job = await claim_one(database)
    told = Told()

    async def has_lapsed() -> bool:
        return told.of("lapsed") == {(job.id, job.claim_token)}

    subject = Execution(job, database=database, lease=LEASE)
    async with subject.chunk():
        # The row stays locked, so nobody renews it.
        with beating(database, told, job, lease=timedelta(milliseconds=60)):
            await until(has_lapsed)
    assert told.of("lost") == set()


async def test_q5_a_suspect_execution_asks_and_goes_on_where_the_claim_is_there(
    database: Database,
) -> None:
    [job_id] = await add(database)
    subject = Execution(await claim_one(database), database=database, lease=LEASE)
    await expire(database, job_id)
    subject.suspect()
    assert subject.is_suspect

    await subject.check()

    assert not subject.is_suspect
    assert await _is_renewed(database, job_id)


async def test_a_cancel_request_comes_back_with_the_heartbeat(
    database: Database,
) -> None:
    [job_id] = await add(database)
    job = await claim_one(database)
    told = Told()

    async def is_told() -> bool:
        return told.of("cancelled") == {(job_id, job.claim_token)}

    with beating(database, told, job):
        await rows(database, "update {s}.jobs set cancel_requested_at = now()")
        await until(is_told)


async def test_a_job_past_its_deadline_is_told_and_one_lease_later_let_go(
    database: Database,
) -> None:
    [job_id] = await add(database)
    job = await claim_one(database, deadline=timedelta(hours=1))
    told = Told()

    async def is_told() -> bool:
        return told.of("overdue") == {(job_id, job.claim_token)}

    await rows(database, "update {s}.jobs set deadline_at = now() - interval '1 s'")
    with beating(database, told, job):
        await expire(database, job_id)
        await until(lambda: _is_renewed(database, job_id))
        await until(is_told)
        await rows(
            database,
            "update {s}.jobs set deadline_at = now() - interval '2 minutes',"
            " locked_until = now() - interval '1 s'",
        )
        for _ in range(3):
            await _another_beat(database)
        assert not await _is_renewed(database, job_id)
    assert told.of("lost") == set()


async def _another_beat(database: Database) -> None:
    statement = "select last_seen_at from {s}.workers where name = 'beating'"
    before = await rows(database, statement)

    async def is_later() -> bool:
        return await rows(database, statement) != before

    await until(is_later)


async def test_the_entry_of_a_worker_that_died_is_retired(database: Database) -> None:
    async with database.connection() as conn:
        for name in ("dead", "alive"):
            identity = Identity.of_this_process(role="work", name=name)
            await see(conn, identity=identity)
        await rows(
            database,
            "update {s}.workers set last_seen_at = now() - interval '1 hour'"
            " where name = 'dead'",
        )
        assert await retire(conn, unseen=timedelta(minutes=10)) == ["dead"]
    assert await rows(database, "select name from {s}.workers") == [("alive",)]


async def test_q2_a_worker_whose_claim_was_taken_stops_its_handler(
    database: Database,
) -> None:
    [job_id] = await add(database)
    started, stopped = asyncio.Event(), asyncio.Event()

    async def handler(execution: Execution) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    subject = worker(database, handler, heartbeat=INTERVAL)
    task = asyncio.create_task(subject.run())
    await started.wait()
    taken = uuid4()
    await rows(
        database, "update {s}.jobs set claim_token = %s, locked_by = 'other'", taken
    )
    await stopped.wait()
    subject.request_stop()
    stats = await task

    assert stats.endings[Ending.LOST] == 1
    assert await rows(database, "select id, status, claim_token from {s}.jobs") == [
        (job_id, "running", taken)
    ]
