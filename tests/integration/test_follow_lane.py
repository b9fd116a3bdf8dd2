"""What happens at the tip does not wait for long jobs of the backfill."""

from __future__ import annotations

import asyncio

from indexer.jobs.backlog import BACKFILL, TIP
from indexer.jobs.execution import Execution
from tests.support.jobs import add, queue, rows, running, until, worker


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
