from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

import pytest

from indexer.db.connection import Connection, Database
from indexer.errors import ClaimLost, DatabaseUnavailable
from indexer.jobs import claims, endings
from indexer.jobs.backlog import enqueue
from indexer.jobs.claims import State
from indexer.jobs.execution import Execution
from indexer.jobs.job import Job
from tests.support.jobs import (
    KIND,
    LEASE,
    add,
    claim_one,
    expire,
    queue,
    record,
    rows,
    rows_on,
    until,
)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with queue(database_url) as opened:
        await rows(opened, "create table {s}.effects (n integer)")
        yield opened


def execution(database: Database, job: Job) -> Execution:
    return Execution(job, database=database, lease=LEASE)


async def write(conn: Connection, n: int) -> None:
    await rows_on(conn, "insert into {s}.effects values (%s)", n)


async def effects(database: Database) -> list[int]:
    return [row[0] for row in await rows(database, "select n from {s}.effects")]


Verb = Callable[[Connection, Job], Awaitable[object]]

VERBS: dict[str, Verb] = {
    "fence": lambda conn, job: claims.fence(
        conn, job_id=job.id, token=job.claim_token, lease=LEASE
    ),
    "complete": lambda conn, job: endings.complete(
        conn, job_id=job.id, token=job.claim_token
    ),
    "cancel": lambda conn, job: endings.cancel_running(
        conn, job_id=job.id, token=job.claim_token
    ),
    "retry": lambda conn, job: endings.retry(
        conn, job_id=job.id, token=job.claim_token, error="no", max_errors=5
    ),
    "fail": lambda conn, job: endings.fail(
        conn, job_id=job.id, token=job.claim_token, error="no"
    ),
    "snooze": lambda conn, job: endings.snooze(
        conn, job_id=job.id, token=job.claim_token, delay=timedelta(seconds=1)
    ),
    "release": lambda conn, job: endings.release(
        conn, job_id=job.id, token=job.claim_token
    ),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_q2_a_stale_token_changes_nothing(database: Database, verb: str) -> None:
    await add(database)
    stale = await claim_one(database)
    await rows(database, "update {s}.jobs set status = 'pending'")
    await claim_one(database)
    before = await rows(database, "select * from {s}.jobs")

    with pytest.raises(ClaimLost):
        async with database.transaction() as conn:
            await VERBS[verb](conn, stale)

    assert await rows(database, "select * from {s}.jobs") == before
    assert await rows(database, "select * from {s}.jobs_history") == []


@pytest.mark.parametrize("verb", VERBS)
async def test_q2_the_token_of_a_job_that_does_not_run_changes_nothing(
    database: Database, verb: str
) -> None:
    await add(database)
    job = await claim_one(database)
    await rows(database, "update {s}.jobs set status = 'failed'")
    before = await rows(database, "select * from {s}.jobs")

    with pytest.raises(ClaimLost):
        async with database.transaction() as conn:
            await VERBS[verb](conn, job)

    assert await rows(database, "select * from {s}.jobs") == before


@pytest.mark.parametrize("verb", VERBS)
async def test_q2_an_expired_lease_alone_takes_nothing_away(
    database: Database, verb: str
) -> None:
    [job_id] = await add(database)
    job = await claim_one(database)
    await expire(database, job_id)

    async with database.transaction() as conn:
        await VERBS[verb](conn, job)


async def test_a_completed_job_leaves_for_history_with_all_that_is_known_of_it(
    database: Database,
) -> None:
    [job_id] = await add(database)
    job = await claim_one(database, worker="me")
    async with database.connection() as conn:
        await endings.complete(
            conn, job_id=job_id, token=job.claim_token, result={"rows": 3}
        )

    assert await rows(database, "select * from {s}.jobs") == []
    done = await record(database, job_id)
    assert (done.status, done.attempts, done.locked_by) == ("done", 1, "me")
    assert (done.payload, done.result) == ({"n": 0}, {"rows": 3})
    assert done.finished_at is not None
    assert done.finished_at >= (done.claimed_at or done.finished_at)


async def test_q3_a_chunk_that_is_rolled_back_leaves_neither_rows_nor_progress(
    database: Database,
) -> None:
    [job_id] = await add(database)
    subject = execution(database, await claim_one(database))
    async with subject.chunk(progress={"next": 10}) as conn:
        await write(conn, 1)

    with pytest.raises(RuntimeError):
        async with subject.chunk(progress={"next": 20}) as conn:
            await write(conn, 2)
            raise RuntimeError

    assert await effects(database) == [1]
    assert (await record(database, job_id)).progress == {"next": 10}
    assert subject.progress == {"next": 10}


async def test_q3_a_chunk_renews_the_lease(database: Database) -> None:
    [job_id] = await add(database)
    subject = execution(database, await claim_one(database))
    await expire(database, job_id)

    async with subject.chunk():
        pass

    [[left]] = await rows(database, "select locked_until - now() from {s}.jobs")
    assert left > timedelta(seconds=50)


async def test_q3_a_chunk_of_a_lost_claim_writes_nothing(database: Database) -> None:
    await add(database)
    subject = execution(database, await claim_one(database))
    await rows(database, "update {s}.jobs set claim_token = %s", uuid4())

    with pytest.raises(ClaimLost):
        async with subject.chunk(progress={"next": 1}) as conn:
            await write(conn, 1)

    assert await effects(database) == []


async def test_q3_the_last_chunk_the_completion_and_new_jobs_are_one(
    database: Database,
) -> None:
    [job_id] = await add(database)
    subject = execution(database, await claim_one(database))

    with pytest.raises(RuntimeError):
        async with subject.finish() as conn:
            await write(conn, 1)
            await enqueue(conn, kind="next", payloads=[{}])
            raise RuntimeError
    assert await effects(database) == []
    assert (await record(database, job_id)).status == "running"
    assert not subject.is_finished

    async with subject.finish(result={"ok": True}) as conn:
        await write(conn, 2)
        await enqueue(conn, kind="next", payloads=[{}])
        async with database.connection() as other:
            assert await rows_on(other, "select kind, status from {s}.jobs") == [
                (KIND, "running")
            ]

    assert await effects(database) == [2]
    assert (await record(database, job_id)).status == "done"
    assert await rows(database, "select kind from {s}.jobs") == [("next",)]


async def test_q2_after_its_end_an_execution_writes_nothing_more(
    database: Database,
) -> None:
    await add(database)
    subject = execution(database, await claim_one(database))
    async with subject.finish():
        pass

    with pytest.raises(ClaimLost):
        async with subject.chunk() as conn:
            await write(conn, 1)
    with pytest.raises(ClaimLost):
        await subject.check()


@pytest.mark.parametrize("inside", [True, False], ids=["in a transaction", "alone"])
async def test_a_missing_history_partition_fails_no_completion(
    database: Database, inside: bool
) -> None:
    await _drop_history(database)
    [job_id] = await add(database)
    subject = execution(database, await claim_one(database))

    if inside:
        async with subject.finish() as conn:
            await write(conn, 1)
        assert await effects(database) == [1]
    else:
        async with database.connection() as conn:
            await endings.complete(conn, job_id=job_id, token=subject.token)

    assert (await record(database, job_id)).status == "done"


async def test_where_no_partition_can_be_made_the_work_still_counts(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    await _drop_history(database)
    [job_id] = await add(database)
    subject = execution(database, await claim_one(database))
    async with database.transaction() as holder:
        # Who holds this lock lets nobody attach a partition.
        await rows_on(
            holder, "lock table {s}.jobs_history in share update exclusive mode"
        )
        async with subject.finish() as conn:
            await write(conn, 1)

    assert await effects(database) == [1]
    assert await rows(database, "select * from {s}.jobs_all") == []
    assert f"job {job_id} ended as done but is in no history" in caplog.text


@pytest.mark.parametrize("inside", [True, False], ids=["in a transaction", "alone"])
async def test_a_partition_that_takes_no_row_yet_is_an_outage_and_no_error(
    database: Database, inside: bool
) -> None:
    # As it looks to a statement that began before the partition was attached.
    await _drop_history(database)
    [[day]] = await rows(
        database, "select to_char(now() at time zone 'UTC', 'YYYYMMDD')"
    )
    await rows(
        database,
        f"create table {{s}}.jobs_history_{day} partition of {{s}}.jobs_history"
        " for values from ('2000-01-01') to ('2000-01-02')",
    )
    [job_id] = await add(database)
    subject = execution(database, await claim_one(database))

    with pytest.raises(DatabaseUnavailable, match="just being made"):
        if inside:
            async with subject.finish() as conn:
                await write(conn, 1)
        else:
            async with database.connection() as conn:
                await endings.complete(conn, job_id=job_id, token=subject.token)

    assert await effects(database) == []
    assert (await record(database, job_id)).status == "running"


async def _drop_history(database: Database) -> None:
    names = await rows(
        database,
        "select inhrelid::regclass::text from pg_inherits"
        " where inhparent = '{s}.jobs_history'::regclass",
    )
    for [name] in names:
        await rows(database, f"drop table {name}")


async def test_the_outcome_of_a_claim_is_running_finished_or_lost(
    database: Database,
) -> None:
    [job_id] = await add(database)
    job = await claim_one(database)
    subject = execution(database, job)

    async def ask() -> claims.Outcome:
        async with database.transaction() as conn:
            return await claims.outcome(conn, job_id=job_id, token=job.claim_token)

    assert await ask() == (State.RUNNING, None)
    async with subject.chunk(progress={"next": 7}):
        pass
    assert await ask() == (State.RUNNING, {"next": 7})
    async with subject.finish():
        pass
    assert await ask() == (State.FINISHED, {"next": 7})
    async with database.transaction() as conn:
        other = await claims.outcome(conn, job_id=job_id, token=uuid4())
    assert other == (State.LOST, None)


async def test_q3_the_outcome_waits_for_a_commit_that_is_under_way(
    database: Database,
) -> None:
    await add(database)
    job = await claim_one(database)

    async def ask() -> claims.Outcome:
        async with database.transaction() as conn:
            return await claims.outcome(conn, job_id=job.id, token=job.claim_token)

    async with database.transaction() as conn:
        await endings.complete(conn, job_id=job.id, token=job.claim_token)
        asking = asyncio.create_task(ask())
        await until(lambda: _somebody_waits(database), "the question")

    assert (await asking).state is State.FINISHED


async def _somebody_waits(database: Database) -> bool:
    return bool(
        await rows(
            database,
            "select 1 from pg_stat_activity where wait_event_type = 'Lock'"
            " and datname = current_database()",
        )
    )


class LosesCommits(Database):
    """Loses the connection once, around a commit, so that nobody knows."""

    lose = True
    before_commit = False

    @asynccontextmanager
    async def transaction(
        self,
        *,
        statement_timeout: timedelta = LEASE,
        lock_timeout: timedelta = LEASE,
        idle_timeout: timedelta = LEASE,
    ) -> AsyncIterator[Connection]:
        async with super().transaction(
            statement_timeout=statement_timeout,
            lock_timeout=lock_timeout,
            idle_timeout=idle_timeout,
        ) as conn:
            yield conn
            if self.before_commit:
                self._lose_it()
        if not self.before_commit:
            self._lose_it()

    def _lose_it(self) -> None:
        if self.lose:
            self.lose = False
            raise DatabaseUnavailable("the connection was lost")


@pytest.mark.parametrize("arrived", [True, False], ids=["arrived", "did not arrive"])
async def test_q3_a_connection_lost_during_commit_repeats_nothing_that_arrived(
    database: Database, database_url: str, arrived: bool
) -> None:
    [job_id] = await add(database)
    job = await claim_one(database)
    async with LosesCommits(database_url, schema="indexer") as unlucky:
        unlucky.before_commit = not arrived
        subject = execution(unlucky, job)
        if arrived:
            async with subject.chunk(progress={"next": 1}) as conn:
                await write(conn, 1)
        else:
            with pytest.raises(DatabaseUnavailable):
                async with subject.chunk(progress={"next": 1}) as conn:
                    await write(conn, 1)
        assert await effects(database) == ([1] if arrived else [])
        assert subject.progress == ({"next": 1} if arrived else None)

        unlucky.lose = True
        if arrived:
            async with subject.finish() as conn:
                await write(conn, 2)
        else:
            with pytest.raises(DatabaseUnavailable):
                async with subject.finish() as conn:
                    await write(conn, 2)
        assert subject.is_finished == arrived

    assert await effects(database) == ([1, 2] if arrived else [])
    status = (await record(database, job_id)).status
    assert status == ("done" if arrived else "running")


async def test_q13_the_fence_holds_the_row_until_the_chunk_is_committed(
    database: Database,
) -> None:
    [job_id] = await add(database)
    subject = execution(database, await claim_one(database))
    async with subject.chunk():
        with pytest.raises(DatabaseUnavailable, match="could not obtain lock"):
            await rows(
                database,
                "select 1 from {s}.jobs where id = %s for update nowait",
                job_id,
            )
