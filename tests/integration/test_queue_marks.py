from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from indexer.db.connection import Connection, Database
from indexer.db.queries import load
from indexer.jobs.claims import FRONT, Mark
from indexer.jobs.execution import Execution
from indexer.jobs.marks import ScanMarks
from tests.support.jobs import KIND, LEASE, add, claim, queue, rows, rows_on, worker

_SNAPSHOT = b"begin isolation level repeatable read; select count(*) from indexer.jobs"


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with queue(database_url) as opened:
        yield opened


async def test_a_mark_spares_a_claim_the_dead_rows_that_an_old_snapshot_keeps(
    database: Database,
) -> None:
    await add(database, 20_000)
    old = await database.connect()
    async with old:
        await old.execute(_SNAPSHOT)
        await rows(database, "delete from {s}.jobs")
        await add(database, 20)
        last = (await claim(database, 10))[-1]
        async with database.connection() as conn:
            from_front = await _pages(conn, FRONT)
            behind = await _pages(conn, Mark(last.run_at, last.id))

    assert from_front > 500
    assert behind < 50


async def test_a_mark_spares_a_claim_the_jobs_of_foreign_kinds(
    database: Database,
) -> None:
    await add(database, 20_000, kind="foreign")
    await add(database, 20)
    last = (await claim(database, 10))[-1]
    async with database.connection() as conn:
        from_front = await _pages(conn, FRONT)
        behind = await _pages(conn, Mark(last.run_at, last.id))

    assert from_front > 500
    assert behind < 50


async def test_what_comes_to_lie_in_front_of_a_mark_is_run_all_the_same(
    database: Database,
) -> None:
    """Late commits, earlier times, lanes that are new: each without a notification."""
    early = await database.connect()
    ran: list[str] = []
    wanted = {"late", "earlier", "urgent"}
    is_first = asyncio.Event()

    async def handler(execution: Execution) -> None:
        ran.append(execution.job.payload["name"])
        if len(ran) == 1:
            is_first.set()
        # There is always work behind the mark, so that no look has to be a poll.
        is_over = wanted <= set(ran) or len(ran) > 20_000
        if not is_over and execution.job.payload["name"] == "more":
            await _insert(database, "more", "now()")

    async with early:
        await rows(database, "alter table {s}.jobs disable trigger jobs_ready")
        await early.execute(b"begin")
        await rows_on(early, _INSERT.format(at="now()", lane=10), "late")
        for _ in range(10):
            await _insert(database, "more", "now()")
        subject = worker(database, handler, concurrency=3)
        running = asyncio.create_task(subject.run(drain=True))
        await is_first.wait()
        await early.execute(b"commit")
        await _insert(database, "earlier", "now() - interval '1 day'")
        await _insert(database, "urgent", "now()", lane=0)
        await running

    # Not when all else was done, but while there was more behind the mark.
    for name in wanted:
        assert "more" in ran[ran.index(name) :], f"{name} came last"


async def test_a_released_job_in_front_of_the_mark_is_run(database: Database) -> None:
    await add(database, 3)
    seen: list[int] = []

    async def handler(execution: Execution) -> None:
        if not seen:
            await rows(
                database,
                "update {s}.jobs set status = 'pending', claim_token = null,"
                " locked_by = null, locked_until = null where id = %s",
                execution.job.id,
            )
        seen.append(execution.job.id)

    await worker(database, handler, concurrency=1).run(drain=True)

    assert len(seen) == 4 and len(set(seen)) == 3


def test_scans_from_the_front_cost_a_hundredth_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("indexer.jobs.marks.monotonic", lambda: now)
    marks = ScanMarks()
    assert marks.rest_seconds() == 0

    began = marks.begin()
    now += 0.02
    marks.end(began)

    assert not marks.is_woken
    assert marks.rest_seconds() == pytest.approx(1.98)
    marks.wake()
    assert marks.is_woken
    assert marks.rest_seconds() == pytest.approx(0.02)
    now += 0.02
    assert marks.rest_seconds() == pytest.approx(0)
    marks.begin()
    assert marks.rest_seconds() > 0.1, "one wake-up is worth one scan"


def test_nothing_is_overlooked_for_more_than_ten_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("indexer.jobs.marks.monotonic", lambda: now)
    marks = ScanMarks()
    began = marks.begin()
    now += 60.0
    marks.end(began)

    assert marks.rest_seconds() == 10.0


async def test_marks_only_ever_go_forward_and_each_lane_and_group_has_its_own(
    database: Database,
) -> None:
    await add(database, 6)
    jobs = await claim(database, 6)
    marks = ScanMarks()
    marks.claimed(10, "a", jobs[:4])
    marks.claimed(10, "a", jobs[:2])

    assert marks.after(10, "a").job_id == 4
    assert marks.after(10, "b") == marks.after(0, "a") == FRONT
    assert marks.lanes == [10]


_INSERT = (
    "insert into {{s}}.jobs (kind, payload, run_at, priority) values"
    f" ('{KIND}', jsonb_build_object('name', %s::text), {{at}}, {{lane}})"
)


async def _insert(database: Database, name: str, at: str, lane: int = 10) -> None:
    await rows(database, _INSERT.format(at=at, lane=lane), name)


async def _pages(conn: Connection, after: Mark) -> int:
    """Return how many pages a claim of one job touches; it is rolled back."""
    parameters: dict[str, Any] = {
        "worker": "w",
        "kinds": [KIND],
        "limit": 1,
        "lease": LEASE,
        "priority": 10,
        "deadline": timedelta(minutes=1),
        "after_run_at": after.run_at,
        "after_id": after.job_id,
    }
    async with conn.transaction(force_rollback=True):
        cursor = await conn.execute(
            b"explain (analyze, buffers, format json) "
            + load("jobs")["claim_jobs"].on(conn.schema),
            parameters,
        )
        [[plan]] = await cursor.fetchall()
    [found] = json.loads(json.dumps(plan))
    top = found["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])
