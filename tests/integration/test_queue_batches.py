from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from indexer.db.connection import Database
from indexer.errors import ClaimLost, DatabaseUnavailable
from indexer.jobs import completions as completions_module
from indexer.jobs import execution as execution_module
from indexer.jobs.backlog import JobFilter, cancel
from indexer.jobs.completions import Completions
from indexer.jobs.execution import Execution
from indexer.jobs.observer import Ending, NoObserver
from indexer.jobs.quick import BatchSize
from indexer.jobs.settings import WorkerSettings
from indexer.jobs.worker import Handler, Worker
from tests.support.jobs import (
    KIND,
    LEASE,
    add,
    claim,
    claim_one,
    queue,
    record,
    rows,
    rows_on,
    running,
    until,
)

FAST = timedelta(milliseconds=20)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with queue(database_url) as opened:
        yield opened


class Claims(NoObserver):
    def __init__(self) -> None:
        self.sizes: list[int] = []

    def claimed(self, jobs: int, *, seconds: float) -> None:
        self.sizes.append(jobs)


def quick(
    database: Database,
    handler: Handler,
    observer: NoObserver | None = None,
    **settings: Any,
) -> Worker:
    return Worker(
        database,
        handlers={KIND: handler},
        quick=[KIND],
        settings=WorkerSettings(**settings),
        observer=observer,
    )


async def statuses(database: Database) -> dict[str, int]:
    found = await rows(database, "select status, count(*) from {s}.jobs_all group by 1")
    return dict(found)


async def test_quick_jobs_are_claimed_and_completed_by_the_hundred(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await add(database, 2_000)
    ran: Counter[int] = Counter()
    claims = Claims()
    batches: list[int] = []
    write = completions_module.Completions._write_batch

    async def noted(self: Completions, batch: list[Any]) -> None:
        batches.append(len(batch))
        await write(self, batch)

    monkeypatch.setattr(Completions, "_write_batch", noted)

    async def handler(execution: Execution) -> None:
        ran[execution.job.id] += 1

    stats = await quick(database, handler, claims).run(drain=True)

    assert stats.endings[Ending.COMPLETED] == 2_000
    assert ran == Counter(ids)
    assert await statuses(database) == {"done": 2_000}
    # From the number of slots on, four times as many each time.
    assert max(claims.sizes) >= 640 and len(claims.sizes) < 30
    assert max(batches) >= 100 and sum(batches) >= 1_900


async def test_quick_jobs_run_beside_ordinary_ones_in_slots_of_their_own(
    database: Database,
) -> None:
    await add(database, kind="ordinary", count=2)
    await add(database, 50)
    is_quick_done = asyncio.Event()
    seen: list[str] = []

    async def ordinary(execution: Execution) -> None:
        await is_quick_done.wait()

    async def note(execution: Execution) -> None:
        seen.append(execution.job.kind)
        if len(seen) == 50:
            is_quick_done.set()

    worker = Worker(
        database,
        handlers={KIND: note, "ordinary": ordinary},
        quick=[KIND],
        settings=WorkerSettings(concurrency=1),
    )
    stats = await worker.run(drain=True)

    assert stats.endings[Ending.COMPLETED] == 52


async def test_a_quick_handler_may_wait_and_no_more_of_them_run_than_slots(
    database: Database,
) -> None:
    await add(database, 40)
    now = most = 0

    async def handler(execution: Execution) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    stats = await quick(database, handler, concurrency=3).run(drain=True)

    assert stats.endings[Ending.COMPLETED] == 40
    assert most == 3


async def test_a_quick_job_that_errs_takes_no_other_along(database: Database) -> None:
    ids = await add(database, 20)

    async def handler(execution: Execution) -> None:
        if execution.job.id == ids[7]:
            raise ValueError("no")
        if execution.job.id == ids[8]:
            async with execution.finish(result={"by": "itself"}):
                pass

    stats = await quick(database, handler, max_errors=1).run(drain=True)

    assert stats.endings[Ending.COMPLETED] == 19
    assert stats.endings[Ending.FAILED] == 1
    assert "ValueError" in ((await record(database, ids[7])).last_error or "")
    assert (await record(database, ids[8])).result == {"by": "itself"}


async def test_q2_a_claim_that_was_taken_is_missing_from_its_batch(
    database: Database,
) -> None:
    ids = await add(database, 30)
    jobs = await claim(database, 30)
    taken = uuid4()
    await rows(
        database,
        "update {s}.jobs set claim_token = %s where id = %s",
        taken,
        ids[11],
    )
    await rows(
        database,
        "update {s}.jobs set status = 'pending', claim_token = null where id = %s",
        ids[12],
    )

    found = await _complete_all(database, {job.id: job.claim_token for job in jobs})

    assert {job_id for job_id, is_ours in found.items() if not is_ours} == {*ids[11:13]}
    assert await statuses(database) == {"done": 28, "running": 1, "pending": 1}
    [[token]] = await rows(
        database, "select claim_token from {s}.jobs where id = %s", ids[11]
    )
    assert token == taken


async def test_q3_a_batch_whose_answer_was_lost_is_looked_up_and_not_repeated(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await add(database, 10)
    jobs = await claim(database, 10)
    tokens = {job.id: job.claim_token for job in jobs}
    real = completions_module._Batch._try
    tries: list[int] = []

    async def unanswered(self: Any) -> set[int]:
        tries.append(len(self._left))
        if len(tries) == 1:
            # Seven of ten arrive, and one more is taken from us before we ask.
            left, self._left = self._left, dict(list(self._left.items())[:7])
            await real(self)
            self._left = left
            await rows(
                database,
                "update {s}.jobs set claim_token = %s where id = %s",
                uuid4(),
                ids[9],
            )
            raise DatabaseUnavailable("the connection was lost")
        return await real(self)

    monkeypatch.setattr(completions_module._Batch, "_try", unanswered)
    found = await _complete_all(database, tokens)

    assert found == {job_id: job_id != ids[9] for job_id in ids}
    assert tries == [10, 2]
    assert await statuses(database) == {"done": 9, "running": 1}


async def test_a_row_that_somebody_keeps_locked_holds_up_no_other(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        completions_module, "_LOCK_TIMEOUT", timedelta(milliseconds=200)
    )
    ids = await add(database, 20)
    jobs = await claim(database, 20)
    answers: dict[int, bool] = {}
    async with Database(database.url, schema=database.schema, size=1) as other:
        async with other.transaction() as conn:
            await rows_on(conn, "select from {s}.jobs where id = %s for update", ids[5])
            completing = asyncio.create_task(
                _complete_all(
                    database, {job.id: job.claim_token for job in jobs}, answers
                )
            )

            async def others_are_done() -> bool:
                return len(answers) == 19

            await until(others_are_done, "the completion of the others")
            assert ids[5] not in answers
        await completing
    assert answers == dict.fromkeys(ids, True)


async def test_a_missing_history_partition_fails_no_batch(database: Database) -> None:
    await add(database, 10)
    jobs = await claim(database, 10)
    for [name] in await rows(
        database,
        "select c.relname from pg_inherits join pg_class c on c.oid = inhrelid"
        " where inhparent = '{s}.jobs_history'::regclass",
    ):
        await rows(database, f"drop table {{s}}.{name}")

    found = await _complete_all(database, {job.id: job.claim_token for job in jobs})

    assert all(found.values()) and len(found) == 10
    assert await statuses(database) == {"done": 10}


async def test_a_single_completion_is_written_at_once_and_tells_a_loss(
    database: Database,
) -> None:
    await add(database, 2)
    mine, lost = await claim(database, 2)
    completions = Completions(database, random=Random(1))

    await completions.complete(mine.id, mine.claim_token)
    with pytest.raises(ClaimLost):
        await completions.complete(lost.id, uuid4())

    assert await statuses(database) == {"done": 1, "running": 1}


async def test_a_cancelled_quick_job_stops_and_the_next_ones_run(
    database: Database,
) -> None:
    ids = await add(database, 5)
    begun = asyncio.Event()

    async def handler(execution: Execution) -> None:
        if execution.job.id == ids[0]:
            begun.set()
            await asyncio.Event().wait()

    subject = quick(database, handler, concurrency=1, heartbeat=FAST)
    async with running(subject):
        await begun.wait()
        async with database.connection() as conn:
            await cancel(conn, which=JobFilter(ids=[ids[0], ids[2]]))

        async def all_ended() -> bool:
            return await statuses(database) == {"cancelled": 2, "done": 3}

        await until(all_ended, "the end of all")


async def test_a_quick_handler_that_will_not_stop_is_left_behind(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(execution_module, "STUBBORN_SECONDS", 0.05)
    ids = await add(database, 4)
    begun, release = asyncio.Event(), asyncio.Event()

    async def handler(execution: Execution) -> None:
        while execution.job.id == ids[0] and not release.is_set():
            begun.set()
            with suppress(asyncio.CancelledError):
                await release.wait()

    subject = quick(database, handler, concurrency=1, heartbeat=FAST)
    with caplog.at_level(logging.ERROR):
        async with running(subject):
            await begun.wait()
            async with database.connection() as conn:
                await cancel(conn, which=JobFilter(ids=[ids[0]]))

            async def all_ended() -> bool:
                return await statuses(database) == {"cancelled": 1, "done": 3}

            try:
                await until(all_ended, "the end of all")
            finally:
                release.set()
    assert "does not stop" in caplog.text


async def test_p3_quick_jobs_that_were_not_begun_are_handed_back_uncounted(
    database: Database,
) -> None:
    await add(database, 10)
    begun = asyncio.Event()

    async def handler(execution: Execution) -> None:
        begun.set()
        await asyncio.Event().wait()

    subject = quick(database, handler, concurrency=2)
    async with running(subject):
        await begun.wait()

    assert await rows(
        database, "select status, attempts, count(*) from {s}.jobs group by 1, 2"
    ) == [("pending", 0, 10)]


async def test_p3_quick_jobs_that_were_claimed_are_finished_in_the_grace_time(
    database: Database,
) -> None:
    await add(database, 10)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handler(execution: Execution) -> None:
        begun.set()
        await go_on.wait()

    subject = quick(database, handler, concurrency=2, claim_batch=4)
    task = asyncio.create_task(subject.run())
    await begun.wait()
    subject.request_stop()
    go_on.set()
    stats = await task

    assert stats.endings[Ending.COMPLETED] == stats.claimed
    assert await statuses(database) == {
        "done": stats.claimed,
        "pending": 10 - stats.claimed,
    }


async def test_one_job_a_statement_where_that_is_asked_for(database: Database) -> None:
    await add(database, 25)
    claims = Claims()

    async def handler(execution: Execution) -> None:
        await asyncio.sleep(0)

    worker = Worker(
        database,
        handlers={KIND: handler},
        settings=WorkerSettings(concurrency=5, claim_batch=1),
        observer=claims,
    )
    stats = await worker.run(drain=True)

    assert stats.endings[Ending.COMPLETED] == 25
    assert max(claims.sizes) == 1


async def test_the_heartbeat_renews_quick_jobs_that_wait_for_their_turn(
    database: Database,
) -> None:
    ids = await add(database, 4)
    begun = asyncio.Event()

    async def handler(execution: Execution) -> None:
        begun.set()
        await asyncio.Event().wait()

    subject = quick(database, handler, concurrency=1, claim_batch=4, heartbeat=FAST)
    async with running(subject):
        await begun.wait()
        await rows(
            database,
            "update {s}.jobs set locked_until = now() - interval '1 minute'"
            " where id = %s",
            ids[3],
        )

        async def renewed() -> bool:
            [[found]] = await rows(
                database,
                "select locked_until > now() from {s}.jobs where id = %s",
                ids[3],
            )
            return bool(found)

        await until(renewed, "the renewal")


def test_slow_jobs_are_not_hoarded(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("indexer.jobs.quick.monotonic", lambda: now)
    batch = BatchSize(least=10, most=1000)
    sizes = []
    for passed in (0.01, 0.01, 0.01, 0.01, 0.2, 1.0, 1.0):
        now += passed
        batch.claimed(batch.size, batch.size)
        sizes.append(batch.size)
    # The first claim tells nothing; what came short tells nothing either.
    batch.claimed(1, batch.size)

    assert sizes == [10, 40, 160, 640, 640, 320, 160]
    assert batch.size == 160


async def test_q2_a_claim_completed_by_its_owner_is_ours_whatever_the_lease_says(
    database: Database,
) -> None:
    await add(database, 2)
    jobs = await claim(database, 2, lease=timedelta(milliseconds=1))

    found = await _complete_all(database, {job.id: job.claim_token for job in jobs})

    assert all(found.values())


async def test_q1_a_job_of_an_unreadable_payload_leaves_its_place_to_the_next(
    database: Database,
) -> None:
    await rows(
        database, "insert into {s}.jobs (kind, payload) values (%s, '[1]')", KIND
    )
    [readable] = await add(database)

    assert (await claim_one(database, lease=LEASE)).id == readable


async def _complete_all(
    database: Database,
    tokens: dict[int, Any],
    answers: dict[int, bool] | None = None,
) -> dict[int, bool]:
    """Complete claims together; return what each was told."""
    answers = {} if answers is None else answers
    completions = Completions(database, random=Random(1))

    async def one(job_id: int) -> None:
        try:
            await completions.complete(job_id, tokens[job_id])
        except ClaimLost:
            answers[job_id] = False
        else:
            answers[job_id] = True

    await asyncio.gather(*(one(job_id) for job_id in tokens))
    return answers
