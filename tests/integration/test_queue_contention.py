"""Every verb at once, in shuffled order: no deadlock, no limit exceeded."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import psycopg
import pytest

from indexer.db.committed import rows_committed
from indexer.db.connection import Connection, Database
from indexer.db.queries import Query, load
from indexer.errors import ClaimLost
from indexer.jobs import claims, endings
from indexer.jobs.backlog import JobFilter, cancel, enqueue, retry_failed
from indexer.jobs.execution import Execution
from indexer.jobs.job import Job
from indexer.jobs.reaper import reap
from tests.support.jobs import (
    KIND,
    add,
    claim,
    direct_urls,
    queue,
    rows,
    until,
    worker,
)

TASKS = 50
TURNS = 3
LIMIT = 5
# They meet on these, so that several want the same rows at once.
_LATEST = 60
_LEASE = timedelta(seconds=60)
_HEARTBEAT = load("jobs")["heartbeat_jobs"]
_FINISH = load("jobs")["finish_jobs"]

_EXPIRE = Query(
    "test",
    "expire",
    "update {schema}.jobs set locked_until = now() - interval '1 s' where id in"
    " (select id from {schema}.jobs where id = any(%(ids)s::bigint[])"
    " and status = 'running' order by id for update skip locked) returning id",
)
_MAKE_DUE = Query(
    "test",
    "make_due",
    "update {schema}.jobs set run_at = now() where id in (select id from {schema}.jobs"
    " where status = 'pending' and run_at > now() order by id"
    " for update skip locked) returning id",
)

Do = Callable[[Connection, "Client"], Awaitable[None]]


class Client:
    """One of many that do what they like with everybody's claims, stale ones too."""

    def __init__(self, seed: int, held: list[tuple[int, UUID]]) -> None:
        self.random = Random(seed)
        self.held = held
        self.refused = 0

    def some(self) -> list[tuple[int, UUID]]:
        latest = self.held[-_LATEST:]
        count = min(len(latest), self.random.randint(1, 8))
        return self.random.sample(latest, count)


async def take(conn: Connection, client: Client) -> None:
    jobs: list[Job] = await claims.claim(
        conn,
        worker=f"client {id(client)}",
        kinds=[KIND],
        limit=LIMIT,
        lease=_LEASE,
        priority=10,
    )
    assert len(jobs) <= LIMIT
    client.held += [(job.id, job.claim_token) for job in jobs]


async def beat(conn: Connection, client: Client) -> None:
    claimed = client.some()
    client.random.shuffle(claimed)
    await rows_committed(
        conn,
        _HEARTBEAT,
        ids=[job_id for job_id, _ in claimed],
        tokens=[token for _, token in claimed],
        lease=_LEASE,
    )


def each(work: Callable[..., Awaitable[Any]], **parameters: Any) -> Do:
    async def do(conn: Connection, client: Client) -> None:
        for job_id, token in client.some():
            try:
                await work(conn, job_id=job_id, token=token, **parameters)
            except ClaimLost:
                client.refused += 1

    return do


async def write(conn: Connection, client: Client) -> None:
    """Two jobs of one's own in one transaction, jobs in id order as everywhere."""
    for job_id, token in sorted(client.some())[:2]:
        try:
            async with conn.transaction():
                await claims.fence(conn, job_id=job_id, token=token, lease=_LEASE)
                await asyncio.sleep(0)
                await endings.complete(conn, job_id=job_id, token=token)
        except ClaimLost:
            client.refused += 1


async def complete_many(conn: Connection, client: Client) -> None:
    claimed = client.some()
    client.random.shuffle(claimed)
    await rows_committed(
        conn,
        _FINISH,
        ids=[job_id for job_id, _ in claimed],
        tokens=[token for _, token in claimed],
        schema=conn.schema,
    )


async def sweep(conn: Connection, client: Client) -> None:
    expired = [job_id for job_id, _ in client.some()]
    await rows_committed(conn, _EXPIRE, ids=expired)
    await reap(conn, lease=timedelta(milliseconds=1), max_lost_leases=20, batch=3)


async def end_some(conn: Connection, client: Client) -> None:
    ids = [job_id for job_id, _ in client.some()]
    client.random.shuffle(ids)
    await cancel(conn, which=JobFilter(ids=ids))


async def begin_again(conn: Connection, client: Client) -> None:
    await retry_failed(conn, which=JobFilter(kind=KIND))
    await rows_committed(conn, _MAKE_DUE)


VERBS: dict[str, Do] = {
    "claim": take,
    "heartbeat": beat,
    "write": write,
    "complete": each(endings.complete),
    "complete many": complete_many,
    "retry": each(endings.retry, error="no", max_errors=3),
    "fail": each(endings.fail, error="never"),
    "snooze": each(endings.snooze, delay=timedelta(seconds=1)),
    "release": each(endings.release),
    "reap": sweep,
    "cancel": end_some,
    "begin again": begin_again,
}


async def everybody(database: Database, *, seed: int) -> list[Client]:
    held: list[tuple[int, UUID]] = []
    clients = [Client(seed + number, held) for number in range(TASKS)]

    async def play(client: Client) -> None:
        for _ in range(TURNS):
            order = ["claim", *client.random.sample(sorted(VERBS), len(VERBS))]
            for name in order:
                async with database.connection() as conn:
                    await VERBS[name](conn, client)

    await asyncio.gather(*(play(client) for client in clients))
    return clients


@asynccontextmanager
async def hostile(url: str, **settings: str) -> AsyncIterator[Database]:
    """Open a queue whose server has other ideas about sessions."""
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with psycopg.connect(direct_urls.get(url, url), autocommit=True) as conn:
        for key, value in settings.items():
            conn.execute(f"alter database \"{name}\" set {key} = '{value}'".encode())
        # A pooler's sessions of before would go on as they were.
        conn.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
    async with queue(url, size=TASKS) as database:
        async with database.connection() as conn:
            payloads = [{"n": n} for n in range(1500)]
            await enqueue(conn, kind=KIND, payloads=payloads)
        yield database


SESSIONS: dict[str, dict[str, str]] = {
    "as shipped": {},
    "serializable": {"default_transaction_isolation": "serializable"},
    "other styles": {
        "timezone": "Pacific/Kiritimati",
        "datestyle": "SQL, DMY",
        "intervalstyle": "sql_standard",
        "bytea_output": "escape",
    },
}


@contextmanager
def deadlocks_counted(url: str) -> Iterator[list[int]]:
    counted: list[int] = []

    def count() -> int:
        with psycopg.connect(url, autocommit=True) as conn:
            row = conn.execute(
                "select deadlocks from pg_stat_database"
                " where datname = current_database()"
            ).fetchone()
            assert row is not None
            return int(row[0])

    before = count()
    yield counted
    counted.append(count() - before)


@pytest.mark.parametrize("session", SESSIONS)
async def test_q13_fifty_clients_in_shuffled_order_never_deadlock(
    database_url: str, session: str
) -> None:
    with deadlocks_counted(database_url) as deadlocks:
        async with hostile(database_url, **SESSIONS[session]) as database:
            clients = await everybody(database, seed=7)
            counts = await rows(
                database, "select status, count(*) from {s}.jobs_all group by 1"
            )
            twice = await rows(
                database, "select id from {s}.jobs_all group by 1 having count(*) > 1"
            )
    assert deadlocks == [0]
    assert twice == []
    assert sum(count for _, count in counts) == 1500
    assert sum(client.refused for client in clients) > 0
    assert Counter(dict(counts))["done"] > 0


_IN_ORDER: dict[str, tuple[str, Callable[..., Awaitable[Any]]]] = {
    "complete many": (
        "running",
        lambda conn, ids, tokens: rows_committed(
            conn, _FINISH, ids=ids, tokens=tokens, schema=conn.schema
        ),
    ),
    "ask what became of many": (
        "running",
        lambda conn, ids, tokens: rows_committed(
            conn, load("jobs")["running_claims"], ids=ids, tokens=tokens
        ),
    ),
    "cancel waiting": (
        "pending",
        lambda conn, ids, tokens: cancel(conn, which=JobFilter(ids=ids)),
    ),
    "cancel running": (
        "running",
        lambda conn, ids, tokens: cancel(conn, which=JobFilter(ids=ids)),
    ),
    "retry failed": (
        "failed",
        lambda conn, ids, tokens: retry_failed(conn, which=JobFilter(ids=ids)),
    ),
}


@pytest.mark.parametrize("verb", _IN_ORDER)
async def test_q13_whoever_waits_for_a_job_holds_none_behind_it(
    database_url: str, verb: str
) -> None:
    status, work = _IN_ORDER[verb]
    async with queue(database_url) as database:
        await add(database, 12)
        jobs = await claim(database, 12)
        await rows(database, "update {s}.jobs set status = %s", status)
        # As they lie in the table is not the order of their ids any more.
        for job in reversed(jobs):
            await rows(
                database, "update {s}.jobs set priority = 9 where id = %s", job.id
            )
        first = jobs[0].id
        shuffled = Random(3).sample(jobs, len(jobs))

        async def act() -> None:
            async with database.connection() as conn:
                await work(
                    conn,
                    [job.id for job in shuffled],
                    [job.claim_token for job in shuffled],
                )

        async def it_waits() -> bool:
            return bool(
                await rows(
                    database,
                    "select 1 from pg_stat_activity where wait_event_type = 'Lock'"
                    " and datname = current_database()",
                )
            )

        async with database.transaction() as conn:
            await conn.execute(
                b"select from indexer.jobs where id = %s for update", [first]
            )
            acting = asyncio.create_task(act())
            await until(it_waits)
            free = await rows(
                database,
                "select count(*) from (select from {s}.jobs for update skip locked) j",
            )
        await acting
    assert free == [(len(jobs) - 1,)]


@pytest.mark.parametrize("minutes", [-10, 10])
async def test_q8_a_client_whose_clock_is_wrong_works_by_the_databases(
    database_url: str, minutes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + 60 * minutes)
    async with queue(database_url) as database:
        await rows(
            database,
            "insert into {s}.jobs (kind, payload, run_at)"
            " values (%s, '{}', now() + interval '5 minutes')",
            KIND,
        )
        ids = await add(database, 20)
        [late] = await add(database, run_after=timedelta(minutes=5))

        async def handler(execution: Execution) -> None:
            assert execution.job.id in ids, "a job ran before its time"
            async with execution.finish():
                pass

        subject = worker(database, handler)
        task = asyncio.create_task(subject.run())

        async def are_done() -> bool:
            found = await rows(database, "select id from {s}.jobs order by id")
            return len(found) == 2 and found[1] == (late,)

        await until(are_done)
        subject.request_stop()
        stats = await task
        assert stats.claimed == len(ids)
        assert await rows(
            database, "select distinct lost_leases, attempts from {s}.jobs_history"
        ) == [(0, 1)]
