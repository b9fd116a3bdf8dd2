"""What happens at the tip does not wait for long jobs of the backfill."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from indexer.jobs.backlog import BACKFILL, TIP
from indexer.jobs.claims import Lane
from indexer.jobs.execution import Execution
from indexer.jobs.lanes import Lanes
from indexer.jobs.settings import WorkerSettings
from indexer.jobs.worker import Worker
from tests.support.jobs import KIND, add, queue, rows, running, until, worker


async def test_jobs_of_the_tip_run_beside_a_backfill_that_fills_every_slot(
    database_url: str,
) -> None:
    async with queue(database_url) as database:
        release = asyncio.Event()
        ran: list[int] = []

        async def handler(execution: Execution) -> None:
            ran.append(execution.job.priority)
            if execution.job.priority == BACKFILL or len(ran) <= 5:
                await release.wait()

        async def in_flight(count: int) -> bool:
            return len(ran) >= count

        await add(database, 20, priority=BACKFILL)
        async with running(worker(database, handler, concurrency=2)):
            await until(lambda: in_flight(2))
            await add(database, 3, priority=TIP)
            await until(lambda: in_flight(3))
            # One slot is spare for them; the others wait, and no backfill comes.
            [(pending,)] = await rows(
                database,
                "select count(*) from {s}.jobs "
                "where status = 'pending' and priority = 0",
            )
            assert pending == 2
            assert ran == [BACKFILL] * 2 + [TIP]
            release.set()
            await until(lambda: in_flight(23))
            # Every lane goes on when slots come free.
            assert ran[3:5] == [TIP, TIP]


def test_who_leaves_the_tip_to_others_takes_what_they_leave_lying() -> None:
    lanes = Lanes()
    tip, backfill = (
        Lane(priority, timedelta(seconds=-0.25), datetime.now(UTC), 8192)
        for priority in (TIP, BACKFILL)
    )
    assert lanes.wait_seconds(tip) == lanes.wait_seconds(backfill) == -0.25
    lanes.leaves_urgent = True
    assert (lanes.wait_seconds(tip), lanes.wait_seconds(backfill)) == (0.75, -0.25)
    assert not lanes.serves(TIP)
    alone = Lanes(only_urgent=True)
    assert (alone.wait_seconds(tip), alone.wait_seconds(backfill)) == (-0.25, None)


async def test_who_serves_the_tip_alone_takes_no_other_job(database_url: str) -> None:
    async with queue(database_url) as database:
        ran: list[int] = []

        async def handler(execution: Execution) -> None:
            ran.append(execution.job.priority)

        def made(lanes: Lanes) -> Worker:
            settings = WorkerSettings(concurrency=2)
            return Worker(
                database, handlers={KIND: handler}, lanes=lanes, settings=settings
            )

        async def are_done() -> bool:
            [(left,)] = await rows(
                database, "select count(*) from {s}.jobs where priority = 0"
            )
            return bool(left == 0)

        await add(database, 4, priority=BACKFILL)
        await add(database, 3, priority=TIP)
        async with running(made(Lanes(only_urgent=True))) as subject:
            await until(are_done)
            assert subject.complaint() is None
        assert ran == [TIP] * 3
        # Nor is the tip stuck where whoever has it does not come.
        others = Lanes()
        others.leaves_urgent = True
        await add(database, 3, priority=TIP)
        async with running(made(others)):
            await until(are_done)
        assert sorted(ran) == [TIP] * 6 + [BACKFILL] * 4
