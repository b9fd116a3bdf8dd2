from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from time import monotonic

import pytest

from indexer.db.connection import Database
from indexer.db.migrate import migrate
from indexer.errors import (
    ClaimLost,
    ConfigError,
    DatabaseUnavailable,
    RpcRateLimited,
    RpcUnavailable,
)
from indexer.jobs import execution as execution_module
from indexer.jobs.backlog import JobFilter, cancel, enqueue
from indexer.jobs.execution import Execution
from indexer.jobs.job import Job
from indexer.jobs.observer import Ending, NoObserver
from indexer.jobs.reaper import Reaped
from indexer.jobs.settings import WorkerSettings
from indexer.jobs.worker import Worker
from tests.support.jobs import (
    KIND,
    add,
    claim_one,
    queue,
    record,
    rows,
    running,
    until,
    worker,
)
from tests.support.pgbouncer import run_pgbouncer

QUICK = timedelta(milliseconds=20)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with queue(database_url) as opened:
        yield opened


async def succeed(execution: Execution) -> None:
    async with execution.finish(result={"seen": execution.job.payload["n"]}):
        pass


async def test_a_drained_queue_has_run_every_job_once(database: Database) -> None:
    ids = await add(database, 100)

    stats = await worker(database, succeed).run(drain=True)

    assert stats.claimed == stats.endings[Ending.COMPLETED] == 100
    assert await rows(
        database, "select id, status, attempts from {s}.jobs_history order by id"
    ) == [(job_id, "done", 1) for job_id in ids]
    assert await rows(database, "select name from {s}.workers") == []


async def test_a_handler_that_just_returns_is_completed(database: Database) -> None:
    [job_id] = await add(database)

    async def handler(execution: Execution) -> None:
        async with execution.chunk(progress={"next": 1}):
            pass

    await worker(database, handler).run(drain=True)

    done = await record(database, job_id)
    assert (done.status, done.progress) == ("done", {"next": 1})


async def test_never_more_than_concurrency_run_at_once(database: Database) -> None:
    await add(database, 40)
    now, most = 0, 0

    async def handler(execution: Execution) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        async with execution.finish():
            pass
        now -= 1

    await worker(database, handler, concurrency=4).run(drain=True)

    assert most == 4


async def test_lanes_are_served_in_their_order(database: Database) -> None:
    order: list[int] = []

    async def handler(execution: Execution) -> None:
        order.append(execution.job.priority)

    await add(database, 3, priority=10)
    await add(database, 3, priority=0)
    await add(database, 3, priority=5)
    await worker(database, handler, concurrency=1).run(drain=True)

    assert order == [0] * 3 + [5] * 3 + [10] * 3


async def test_a_small_claim_batch_still_fills_every_slot(database: Database) -> None:
    await add(database, 5)
    together = asyncio.Barrier(5)

    async def handler(execution: Execution) -> None:
        await together.wait()

    stats = await worker(database, handler, claim_batch=1).run(drain=True)

    assert stats.endings[Ending.COMPLETED] == 5


async def test_an_error_gives_the_job_back_and_is_recorded_without_secrets(
    database: Database,
) -> None:
    [job_id] = await add(database)

    async def handler(execution: Execution) -> None:
        raise ValueError("cannot read https://node.example/v3/secretkey \0 \ud800")

    subject = worker(database, handler)
    async with running(subject):
        await until(lambda: _has_status(database, job_id, "pending", errors=1))

    given_back = await record(database, job_id)
    assert given_back.last_error is not None
    assert given_back.last_error.startswith("ValueError: cannot read https://node.exa")
    assert "secretkey" not in given_back.last_error
    assert "\N{REPLACEMENT CHARACTER}" in given_back.last_error
    assert (given_back.errors, given_back.attempts) == (1, 1)


async def _has_status(
    database: Database, job_id: int, status: str, *, errors: int = 0
) -> bool:
    found = await record(database, job_id)
    return found.status == status and found.errors == errors


async def test_drain_waits_for_a_retry_and_ends_when_the_limit_fails_the_job(
    database: Database,
) -> None:
    [job_id] = await add(database)
    attempts = 0

    async def handler(execution: Execution) -> None:
        nonlocal attempts
        attempts += 1
        raise ValueError("no")

    subject = worker(database, handler, max_errors=2, poll_interval=QUICK)
    task = asyncio.create_task(subject.run(drain=True))
    await until(lambda: _has_status(database, job_id, "pending", errors=1))
    assert not task.done()
    await rows(database, "update {s}.jobs set run_at = now()")
    stats = await task

    assert attempts == 2
    assert (stats.endings[Ending.RETRIED], stats.endings[Ending.FAILED]) == (1, 1)
    assert (await record(database, job_id)).last_error == "ValueError: no"


async def test_drain_waits_for_jobs_that_others_run(database: Database) -> None:
    [job_id] = await add(database)
    await claim_one(database, worker="another")
    subject = worker(database, succeed)
    task = asyncio.create_task(subject.run(drain=True))
    await until(lambda: _looked(subject.complaint))
    assert not task.done()

    await rows(database, "delete from {s}.jobs where id = %s", job_id)
    assert (await task).claimed == 0


async def _looked(complaint: object) -> bool:
    return callable(complaint) and complaint() is None


async def test_q7_an_outage_costs_neither_attempt_nor_error(
    database: Database,
) -> None:
    [job_id] = await add(database)
    calls = 0

    async def handler(execution: Execution) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RpcUnavailable("the node is down")

    stats = await worker(database, handler).run(drain=True)

    assert stats.endings[Ending.SNOOZED] == 1
    done = await record(database, job_id)
    assert (done.status, done.attempts, done.errors, done.snoozes) == ("done", 1, 0, 1)
    assert done.last_error == "RpcUnavailable: the node is down"


async def test_q7_a_node_that_names_a_time_is_asked_no_earlier(
    database: Database,
) -> None:
    [job_id] = await add(database)

    async def handler(execution: Execution) -> None:
        raise RpcRateLimited("slow down", retry_after=600)

    async with running(worker(database, handler)):
        await until(lambda: _has_snoozed(database, job_id))
    [[wait]] = await rows(database, "select run_at - last_error_at from {s}.jobs")
    assert timedelta(seconds=599) < wait < timedelta(seconds=751)


async def _has_snoozed(database: Database, job_id: int) -> bool:
    return (await record(database, job_id)).snoozes == 1


async def test_a_cancelled_job_stops_and_leaves_for_history(
    database: Database,
) -> None:
    [job_id] = await add(database)
    started = asyncio.Event()

    async def handler(execution: Execution) -> None:
        async with execution.chunk(progress={"next": 5}):
            pass
        started.set()
        await asyncio.Event().wait()

    async with running(worker(database, handler, heartbeat=QUICK)):
        await started.wait()
        async with database.connection() as conn:
            assert await cancel(conn, which=JobFilter(ids=[job_id])) == (0, 1)
        await until(lambda: _has_status(database, job_id, "cancelled"))
    assert (await record(database, job_id)).progress == {"next": 5}


async def test_a_job_that_was_cancelled_before_it_was_claimed_again_never_starts(
    database: Database,
) -> None:
    [job_id] = await add(database)
    await rows(database, "update {s}.jobs set cancel_requested_at = now()")
    started = False

    async def handler(execution: Execution) -> None:
        nonlocal started
        started = True

    await worker(database, handler).run(drain=True)

    assert not started
    assert (await record(database, job_id)).status == "cancelled"


async def test_a_handler_that_hangs_past_its_deadline_is_ended_and_recorded(
    database: Database,
) -> None:
    [job_id] = await add(database)
    ended = asyncio.Event()

    async def handler(execution: Execution) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    subject = worker(
        database, handler, heartbeat=QUICK, job_deadline=QUICK, max_errors=1
    )
    stats = await subject.run(drain=True)

    assert ended.is_set()
    assert stats.endings[Ending.FAILED] == 1
    error = (await record(database, job_id)).last_error
    assert error is not None and "longer than its deadline" in error


async def test_a_handler_that_will_not_stop_at_its_deadline_frees_its_slot(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_module, "STUBBORN_SECONDS", 0.05)
    [job_id] = await add(database)
    let_go = asyncio.Event()

    async def handler(execution: Execution) -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    subject = worker(
        database, handler, heartbeat=QUICK, job_deadline=QUICK, max_errors=1
    )
    try:
        stats = await subject.run(drain=True)
    finally:
        let_go.set()

    assert stats.endings[Ending.FAILED] == 1
    assert (await record(database, job_id)).status == "failed"


async def test_p3_what_does_not_finish_in_the_grace_time_is_handed_back(
    database: Database,
) -> None:
    ids = await add(database, 3)
    started = asyncio.Event()

    async def handler(execution: Execution) -> None:
        if execution.job.id == ids[2]:
            started.set()
            return
        await asyncio.Event().wait()

    subject = worker(database, handler, grace=timedelta(milliseconds=500))
    task = asyncio.create_task(subject.run())
    await started.wait()
    await until(lambda: _has_status(database, ids[2], "done"))
    begun = monotonic()
    subject.request_stop()
    stats = await task

    assert monotonic() - begun < 10
    assert (stats.endings[Ending.RELEASED], stats.endings[Ending.COMPLETED]) == (2, 1)
    assert (
        await rows(database, "select status, attempts, locked_by, errors from {s}.jobs")
        == [("pending", 0, None, 0)] * 2
    )


async def test_p3_what_can_finish_in_the_grace_time_finishes(
    database: Database,
) -> None:
    [job_id] = await add(database)
    started, go = asyncio.Event(), asyncio.Event()

    async def handler(execution: Execution) -> None:
        started.set()
        await go.wait()

    subject = worker(database, handler, concurrency=1)
    task = asyncio.create_task(subject.run())
    await started.wait()
    subject.request_stop()
    [late] = await add(database)
    go.set()
    await task

    assert (await record(database, job_id)).status == "done"
    assert (await record(database, late)).status == "pending"


async def test_p3_a_second_request_hands_back_at_once(database: Database) -> None:
    [job_id] = await add(database)
    started = asyncio.Event()

    async def handler(execution: Execution) -> None:
        started.set()
        await asyncio.Event().wait()

    subject = worker(database, handler, grace=timedelta(hours=1))
    task = asyncio.create_task(subject.run())
    await started.wait()
    subject.request_stop()
    subject.request_stop()
    await task

    released = await record(database, job_id)
    assert (released.status, released.attempts) == ("pending", 0)


async def test_p3_a_handler_that_will_not_stop_is_left_without_its_claim(
    database: Database,
) -> None:
    [job_id] = await add(database)
    started, let_go, refused = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler(execution: Execution) -> None:
        started.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        try:
            async with execution.chunk():
                pass
        except ClaimLost:
            refused.set()

    subject = worker(database, handler, grace=timedelta(milliseconds=500))
    task = asyncio.create_task(subject.run())
    await started.wait()
    subject.request_stop()
    await task

    released = await record(database, job_id)
    let_go.set()
    await refused.wait()
    assert (released.status, released.attempts) == ("pending", 0)


async def test_an_interruption_never_tears_a_chunk(database: Database) -> None:
    await rows(database, "create table if not exists {s}.effects (n int)")
    [job_id] = await add(database)
    inside = asyncio.Event()

    async def handler(execution: Execution) -> None:
        async with execution.chunk(progress={"next": 1}) as conn:
            inside.set()
            await conn.execute(b"select pg_sleep(0.2)")
            await conn.execute(b"insert into indexer.effects values (1)")
        await asyncio.Event().wait()

    subject = worker(database, handler, grace=timedelta(seconds=5))
    task = asyncio.create_task(subject.run())
    await inside.wait()
    subject.request_stop()
    subject.request_stop()
    stats = await task

    assert stats.endings[Ending.RELEASED] == 1
    assert await rows(database, "select n from {s}.effects") == [(1,)]
    assert (await record(database, job_id)).progress == {"next": 1}


async def test_q12_the_worker_outlives_the_loss_of_every_connection(
    database: Database,
) -> None:
    await add(database, 1)
    async with running(worker(database, succeed, poll_interval=QUICK)):
        await until(lambda: _is_empty(database))
        await rows(
            database,
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()",
        )
        await until(lambda: _can_add(database))
        await until(lambda: _is_empty(database))


async def _can_add(database: Database) -> bool:
    try:
        await add(database)
    except DatabaseUnavailable:
        return False
    return True


async def _is_empty(database: Database) -> bool:
    try:
        return not await rows(database, "select 1 from {s}.jobs")
    except DatabaseUnavailable:
        return False


async def test_q9_a_plain_insert_of_another_program_wakes_an_idle_worker(
    database: Database,
) -> None:
    subject = worker(database, succeed, poll_interval=timedelta(hours=1))

    async def is_listening() -> bool:
        return subject.is_listening

    async with running(subject):
        await until(is_listening)
        [[job_id]] = await rows(
            database,
            "insert into {s}.jobs (kind, payload) values (%s, %s) returning id",
            KIND,
            '{"n": 1}',
        )
        await until(lambda: _has_status(database, job_id, "done"))


async def test_q10_workers_of_two_schemas_in_one_database_never_cross(
    database: Database, database_url: str
) -> None:
    await migrate(database_url, schema="Other chain")
    seen: dict[str, list[int]] = {"here": [], "there": []}

    async def here(execution: Execution) -> None:
        seen["here"].append(execution.job.payload["n"])

    async def there(execution: Execution) -> None:
        seen["there"].append(execution.job.payload["n"])

    async with queue(database_url, schema="Other chain") as other:
        await add(database, 20)
        async with other.connection() as conn:
            payloads = [{"n": number} for number in range(100, 120)]
            await enqueue(conn, kind=KIND, payloads=payloads)
        await asyncio.gather(
            worker(database, here).run(drain=True),
            worker(other, there).run(drain=True),
        )
        assert len(await rows(other, "select 1 from {s}.jobs_history")) == 20

    assert sorted(seen["here"]) == list(range(20))
    assert sorted(seen["there"]) == list(range(100, 120))


async def test_q10_a_worker_behind_a_pooler_runs_every_job_once(
    database: Database,
) -> None:
    ids = await add(database, 60)
    with run_pgbouncer(database.url, pool_size=3) as pooled:
        async with Database(pooled, schema="indexer", size=8) as through:
            assert through.prepared is False
            subject = Worker(
                through,
                handlers={KIND: succeed},
                settings=WorkerSettings(heartbeat=QUICK),
                listen_url=database.url,
            )
            stats = await subject.run(drain=True)
    assert stats.endings[Ending.COMPLETED] == len(ids)
    assert await rows(
        database, "select id, status from {s}.jobs_history order by id"
    ) == [(job_id, "done") for job_id in ids]


async def test_each_finished_job_is_one_line_and_one_call_of_the_observer(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[tuple[int, Ending]] = []

    class Watch(NoObserver):
        def ended(
            self, job: Job, ending: Ending, *, reason: str, seconds: float
        ) -> None:
            ended.append((job.id, ending))

        def reaped(self, jobs: list[Reaped]) -> None:
            raise AssertionError("nothing is reaped here")

    [job_id] = await add(database)
    caplog.set_level(logging.INFO, logger="indexer")
    await Worker(
        database,
        handlers={KIND: succeed},
        settings=WorkerSettings(),
        observer=Watch(),
    ).run(drain=True)

    assert ended == [(job_id, Ending.COMPLETED)]
    lines = [each for each in caplog.messages if f"job {job_id}" in each]
    assert len(lines) == 1
    assert lines[0].startswith(f'job {job_id} test {{"n": 0}}: completed in 0.')


def test_a_heartbeat_longer_than_a_third_of_the_lease_is_refused() -> None:
    with pytest.raises(ConfigError, match="third of --lease"):
        WorkerSettings(lease=timedelta(seconds=30), heartbeat=timedelta(seconds=11))
