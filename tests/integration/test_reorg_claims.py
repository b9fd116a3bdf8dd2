"""Jobs over replaced blocks, while somebody runs them: their claims lose the token."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from indexer.db.connection import Database
from indexer.devnode.faults.fault import Fault
from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from indexer.errors import ClaimLost
from indexer.jobs import backlog, claims
from indexer.jobs.job import Job
from tests.support.following import Following, Reader, following
from tests.support.reader import differences

HEIGHT = 60
START = 50
LEASE = timedelta(seconds=60)
KINDS = ["index_blocks", "index_events"]


@pytest.fixture
def node() -> Iterator[Devnode]:
    config = DevnodeConfig(profile="dense", height=HEIGHT, finality_depth=40)
    with running_devnode(config) as running:
        yield running


@pytest.fixture
async def it(node: Devnode, database_url: str) -> AsyncIterator[Following]:
    """A follower at the tip, and jobs that nobody runs."""
    async with following(database_url, node.url, start=START, works=False) as made:
        await made.until_block(node.url)
        yield made


async def claim(database: Database, *, priority: int, limit: int = 100) -> list[Job]:
    async with database.connection() as conn:
        return await claims.claim(
            conn,
            worker="tester",
            kinds=KINDS,
            limit=limit,
            lease=LEASE,
            priority=priority,
        )


async def fence(database: Database, job_id: int, token: UUID) -> None:
    async with database.transaction() as conn:
        await claims.fence(conn, job_id=job_id, token=token, lease=LEASE)


async def enqueue(database: Database, kind: str, **payload: Any) -> int:
    payload = {key.rstrip("_"): value for key, value in payload.items()}
    async with database.connection() as conn:
        [job_id] = await backlog.enqueue(conn, kind=kind, payloads=[payload])
    return job_id


async def test_q13_jobs_that_name_a_replaced_block_go_in_every_state(
    node: Devnode, it: Following
) -> None:
    running = await claim(it.database, priority=0, limit=10)
    [kept] = [job for job in running if job.payload["height"] == HEIGHT - 2]
    [gone] = [job for job in running if job.payload["height"] == HEIGHT - 1]
    await it.rows(
        "update indexer.jobs set status = 'failed' where payload ->> 'height' = %s",
        str(HEIGHT),
    )
    old = await it.rows("select id from indexer.jobs where id > %s", kept.id)
    node.reorg(2)
    await it.until_block(node.url)
    await fence(it.database, kept.id, kept.claim_token)
    with pytest.raises(ClaimLost):
        await fence(it.database, gone.id, gone.claim_token)
    left = await it.rows(
        "select id, payload ->> 'height', payload ->> 'hash', status, priority "
        "from indexer.jobs where (payload ->> 'height')::bigint >= %s order by 2",
        HEIGHT - 1,
    )
    assert [row[1:] for row in left] == [
        (str(height), "0x" + node.chain.hash_at(height).hex(), "pending", 0)
        for height in range(HEIGHT - 1, HEIGHT + 2)
    ]
    assert not {row[0] for row in left} & {row[0] for row in old}


async def test_q13_jobs_for_ranges_go_on_from_the_fork(
    node: Devnode, it: Following
) -> None:
    running = await enqueue(it.database, "index_events", from_=START, to=HEIGHT)
    untouched = await enqueue(it.database, "index_events", from_=START, to=HEIGHT - 2)
    [one, other] = await claim(it.database, priority=10)
    assert (one.id, other.id) == (running, untouched)
    waiting = await enqueue(it.database, "index_blocks", from_=START, to=HEIGHT + 50)
    above = await enqueue(it.database, "index_blocks", from_=HEIGHT, to=HEIGHT + 50)
    failed = await enqueue(it.database, "index_events", from_=0, to=HEIGHT)
    single = await enqueue(it.database, "index_events", height=HEIGHT)
    foreign = await enqueue(it.database, "index_events", height="all", to=["x"])
    await it.rows(
        """update indexer.jobs set progress = '{"next": 60, "kept": 1}'
        where id = any(%s)""",
        [running, waiting, above, failed],
    )
    await it.rows(
        """update indexer.jobs set progress = '{"next": 52}' where id = %s""",
        untouched,
    )
    await it.rows("update indexer.jobs set status = 'failed' where id = %s", failed)
    node.reorg(2)
    await it.until_block(node.url)
    with pytest.raises(ClaimLost):
        await fence(it.database, one.id, one.claim_token)
    await fence(it.database, other.id, other.claim_token)
    assert await it.rows(
        "select id, status, attempts, lost_leases, (progress ->> 'next')::int "
        "from indexer.jobs where priority = 10 order by id"
    ) == [
        (running, "pending", 0, 0, HEIGHT - 1),
        (untouched, "running", 1, 0, 52),
        (waiting, "pending", 0, 0, HEIGHT - 1),
        (above, "pending", 0, 0, HEIGHT - 1),
        (failed, "failed", 0, 0, HEIGHT - 1),
        (single, "pending", 0, 0, None),
        (foreign, "pending", 0, 0, None),
    ]


async def test_q13_a_chunk_under_way_is_waited_for_and_then_replaced(
    node: Devnode, it: Following
) -> None:
    """A job that is completed while its row is waited for leaves another."""
    await enqueue(it.database, "index_blocks", from_=START, to=HEIGHT)
    [job] = await claim(it.database, priority=10)
    async with it.database.transaction() as conn:
        await claims.fence(
            conn, job_id=job.id, token=job.claim_token, lease=LEASE, progress=None
        )
        node.reorg(1)
        await it.until(lambda: waits_for_a_row(it))
        # As the last chunk of index_blocks does: the job ends and leaves another.
        await conn.execute("delete from indexer.jobs where id = %s", [job.id])
        await conn.execute(
            "insert into indexer.jobs (kind, payload, status, claim_token, progress) "
            "values ('index_events', %s, 'running', gen_random_uuid(), %s)",
            ['{"from": 50, "to": 60}', '{"next": 61}'],
        )
    await it.until_block(node.url)
    assert await it.rows(
        "select kind, status, claim_token, (progress ->> 'next')::int "
        "from indexer.jobs where priority = 10"
    ) == [("index_events", "pending", None, HEIGHT)]


async def waits_for_a_row(it: Following) -> bool:
    return bool(
        await it.value(
            "select count(*) from pg_stat_activity "
            "where datname = current_database() and wait_event_type = 'Lock'"
        )
    )


async def test_c2_receipts_fetched_for_a_replaced_block_are_not_stored(
    node: Devnode, database_url: str
) -> None:
    """The worker holds the receipts of an orphaned block while it is replaced."""
    with Reader(database_url):
        async with following(database_url, node.url, start=START) as it:
            await it.until_tip(node.url)
            slow = Fault(kind="latency", method="eth_getBlockReceipts", seconds=0.5)
            for depth in (1, 3):
                node.faults.add(slow)
                node.mine(1)
                await it.until(
                    lambda: it.rows(
                        "select id from indexer.jobs where status='running'"
                    )
                )
                node.reorg(depth)
                await it.until_block(node.url)
                node.faults.clear()
                await it.until_tip(node.url)
            assert len(await it.reorgs()) == 2
    head = node.chain.head
    assert differences(node.url, database_url, range(START, head + 1)) == []


async def test_q13_reorganisations_and_a_busy_backfill_do_not_deadlock(
    database_url: str,
) -> None:
    """The backfill was planned without a node, up to the very tip."""
    config = DevnodeConfig(profile="mixed", height=HEIGHT, finality_depth=40)
    with running_devnode(config) as node:
        await reorganise_beside_backfill(node, database_url)
        head = node.chain.head
        assert differences(node.url, database_url, range(head + 1)) == []


async def reorganise_beside_backfill(node: Devnode, database_url: str) -> None:
    async with following(database_url, node.url, start=START) as it:
        await it.until_block(node.url)
        for first in range(0, HEIGHT + 40, 20):
            await enqueue(it.database, "index_blocks", from_=first, to=first + 19)
        for _ in range(10):
            node.mine(3)
            node.reorg(2)
            await it.until_block(node.url)
        node.mine(60)
        await it.until_tip(node.url)
        deadlocks = await it.value(
            "select deadlocks from pg_stat_database where datname = current_database()"
        )
        assert deadlocks == 0
