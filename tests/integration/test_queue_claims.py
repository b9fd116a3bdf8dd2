from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from indexer.db.committed import rows_committed
from indexer.db.connection import Database
from indexer.db.queries import Query, load
from indexer.jobs import claims, endings
from indexer.jobs.claims import pending_lanes
from indexer.jobs.endings import release_strays
from indexer.jobs.reaper import reap
from tests.support.jobs import (
    KIND,
    LEASE,
    add,
    claim,
    claim_one,
    expire,
    make_due,
    queue,
    record,
    rows,
)

_METHODS = (
    *("hashjoin", "mergejoin", "material", "memoize", "hashagg", "sort"),
    *("indexscan", "bitmapscan"),
)
# Pages, rows, distinct values of each column, and the share that is NULL.
_LIES = {
    "one row on many pages": (100_000, 1, 1, 0.0),
    "a billion rows on a page": (1, 1e9, -1, 0.0),
    "every value NULL": (100, 2000, 1, 1.0),
    "two kinds and states of millions": (100_000, 5e6, 2, 0.0),
}
_DEFAULT = "default_transaction_isolation"
ISOLATION = Query(
    "test", "isolation", "select pg_catalog.current_setting('transaction_isolation')"
)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with queue(database_url) as opened:
        yield opened


async def test_a_claim_marks_the_job_and_shows_its_token(database: Database) -> None:
    [job_id] = await add(database)

    job = await claim_one(database, worker="somebody", deadline=timedelta(minutes=5))

    assert (job.id, job.kind, job.payload, job.attempts) == (job_id, KIND, {"n": 0}, 1)
    [found] = await rows(
        database,
        "select status, locked_by, claim_token, locked_until - claimed_at,"
        " deadline_at - claimed_at, attempts from {s}.jobs",
    )
    assert found[:3] == ("running", "somebody", job.claim_token)
    assert found[3] > timedelta(seconds=59)
    assert found[4] >= timedelta(minutes=5) - timedelta(seconds=1)
    assert found[5] == 1


async def test_q1_jobs_come_in_the_order_of_run_at_and_id(database: Database) -> None:
    ids = await add(database, 6)
    await rows(
        database,
        "update {s}.jobs set run_at = now() - interval '1 hour' where id = any(%s)",
        [ids[5], ids[2]],
    )

    jobs = await claim(database, 5)

    assert [job.id for job in jobs] == [ids[2], ids[5], ids[0], ids[1], ids[3]]


async def test_q1_only_due_jobs_of_known_kinds_and_of_the_lane_are_taken(
    database: Database,
) -> None:
    [due] = await add(database)
    await add(database, run_after=timedelta(hours=1))
    await add(database, kind="another")
    [urgent] = await add(database, priority=0)

    assert [job.id for job in await claim(database, 10)] == [due]
    assert [job.id for job in await claim(database, 10, priority=0)] == [urgent]


async def test_lanes_are_told_with_the_time_their_earliest_job_is_due(
    database: Database,
) -> None:
    await add(database, 3, priority=10)
    await add(database, priority=0, run_after=timedelta(hours=1))
    await add(database, priority=5)
    await claim_one(database, priority=5)

    async with database.connection() as conn:
        lanes = await pending_lanes(conn)

    assert [lane.priority for lane in lanes] == [0, 10]
    assert timedelta(minutes=59) < lanes[0].due_in <= timedelta(hours=1)
    assert lanes[1].due_in <= timedelta(0)


@pytest.mark.parametrize("lie", _LIES)
async def test_q1_no_claim_exceeds_its_limit_whatever_the_statistics_say(
    database: Database, lie: str
) -> None:
    await rows(database, "alter table {s}.jobs set (autovacuum_enabled = off)")
    await add(database, 2000)
    await rows(database, "analyze {s}.jobs")
    pages, tuples, distinct, nulls = _LIES[lie]
    await rows(
        database,
        "update pg_class set reltuples = %s, relpages = %s"
        " where oid = '{s}.jobs'::regclass",
        tuples,
        pages,
    )
    # What the columns hold as well: no most common values, no histogram left.
    await rows(
        database,
        "update pg_statistic set stadistinct = %s, stanullfrac = %s, stakind1 = 0,"
        " stakind2 = 0, stakind3 = 0 where starelid = '{s}.jobs'::regclass",
        distinct,
        nulls,
    )
    async with database.connection() as conn:
        # With these a LIMIT in a subquery is run again for each row of the table,
        # and one claim of three takes them all.
        for method in _METHODS:
            await conn.execute(f"set enable_{method} = off".encode())
        for _ in range(10):
            jobs = await claims.claim(
                conn,
                worker="tester",
                kinds=[KIND],
                limit=3,
                lease=LEASE,
                priority=10,
            )
            assert len(jobs) == 3
    [[running]] = await rows(
        database, "select count(*) from {s}.jobs where status = 'running'"
    )
    assert running == 30


async def test_q1_claimers_at_the_same_time_share_no_job(database: Database) -> None:
    ids = await add(database, 600)

    async def take_all(name: str) -> list[int]:
        taken: list[int] = []
        while jobs := await claim(database, 7, worker=name):
            taken += [job.id for job in jobs]
        return taken

    shares = await asyncio.gather(*(take_all(f"worker {n}") for n in range(6)))

    assert sorted(job_id for share in shares for job_id in share) == ids
    assert sum(1 for share in shares if share) > 1


async def test_q1_a_row_that_somebody_has_locked_is_stepped_past(
    database: Database,
) -> None:
    first, second = await add(database, 2)
    async with database.transaction() as conn:
        await conn.execute(
            b"select from indexer.jobs where id = %s for update", [first]
        )
        assert [job.id for job in await claim(database, 2)] == [second]
    assert [job.id for job in await claim(database, 2)] == [first]


async def test_q1_claims_are_read_committed_where_the_server_is_not(
    database: Database, database_url: str
) -> None:
    async with database.connection() as conn:
        assert await rows_committed(conn, ISOLATION) == [("read committed",)]
    await rows(
        database,
        f'alter database "{psycopg.conninfo.conninfo_to_dict(database_url)["dbname"]}"'
        " set default_transaction_isolation = 'serializable'",
    )
    async with queue(database_url) as strict:
        [[default]] = await rows(strict, "select current_setting(%s)", _DEFAULT)
        assert default == "serializable"
        async with strict.connection() as conn:
            assert await rows_committed(conn, ISOLATION) == [("read committed",)]
        await add(strict, 200)

        async def take_all() -> int:
            taken = 0
            while jobs := await claim(strict, 3):
                taken += len(jobs)
            return taken

        assert sum(await asyncio.gather(*(take_all() for _ in range(4)))) == 200


async def test_q1_a_default_isolation_that_changes_under_a_session_is_noticed(
    database: Database,
) -> None:
    failing = Query(
        "test",
        "failing",
        "select {schema}.conflict()",
    )
    await rows(
        database,
        "create function {s}.conflict() returns void language plpgsql as"
        " $$ begin raise sqlstate '40001'; end $$",
    )
    conn = await database.connect()
    async with conn:
        assert await rows_committed(conn, ISOLATION) == [("read committed",)]
        await conn.execute(b"set default_transaction_isolation = 'serializable'")
        assert await rows_committed(conn, ISOLATION) == [("serializable",)]
        with pytest.raises(psycopg.errors.SerializationFailure):
            await rows_committed(conn, failing)
        assert await rows_committed(conn, ISOLATION) == [("read committed",)]


async def test_a_statement_that_fails_leaves_no_transaction_open(
    database: Database,
) -> None:
    broken = Query("test", "broken", "select 1 / %(n)s::integer")
    async with database.connection() as conn:
        conn.default_isolation = "serializable"
        with pytest.raises(psycopg.errors.DivisionByZero):
            await rows_committed(conn, broken, n=0)
        assert await rows_committed(conn, broken, n=1) == [(1,)]


async def test_q2_every_claim_has_a_token_of_its_own(database: Database) -> None:
    await add(database, 50)

    tokens = {job.claim_token for job in await claim(database, 50)}
    await rows(database, "update {s}.jobs set status = 'pending'")
    tokens |= {job.claim_token for job in await claim(database, 50)}

    assert len(tokens) == 100


@pytest.mark.parametrize(
    "payload",
    ["[1]", "null", '{"n": 1' + "0" * 5000 + "}", "[" * 3000 + "]" * 3000],
    ids=["an array", "null", "a number of 5,001 digits", "3,000 arrays in another"],
)
async def test_a_payload_that_cannot_be_read_fails_its_job_and_no_other(
    database: Database, payload: str
) -> None:
    [[bad]] = await rows(
        database,
        "insert into {s}.jobs (kind, payload) values (%s, %s::jsonb) returning id",
        KIND,
        payload,
    )
    [good] = await add(database)

    assert [job.id for job in await claim(database, 2)] == [good]

    failed = await record(database, bad)
    assert failed.status == "failed"
    assert "payload cannot be read" in (failed.last_error or "")


@pytest.mark.parametrize(
    "progress",
    ["[1]", '{"n": 1' + "0" * 5000 + "}", "[" * 3000 + "]" * 3000],
    ids=["an array", "a number of 5,001 digits", "3,000 arrays in another"],
)
async def test_a_progress_that_cannot_be_read_fails_its_job_and_no_other(
    database: Database, progress: str
) -> None:
    bad, good = await add(database, 2)
    await rows(
        database,
        "update {s}.jobs set progress = %s::jsonb where id = %s",
        progress,
        bad,
    )

    assert [job.id for job in await claim(database, 2)] == [good]

    failed = await record(database, bad)
    assert failed.status == "failed"
    assert "progress cannot be read" in (failed.last_error or "")


async def test_q1_no_counter_however_large_breaks_a_claim_or_its_end(
    database: Database,
) -> None:
    most = 2**31 - 1
    ids = await add(database, 3)
    counters = ("attempts", "errors", "lost_leases", "snoozes")
    await rows(
        database,
        "update {s}.jobs set " + ", ".join(f"{each} = {most}" for each in counters),
    )

    erred, snoozed, reaped = await claim(database, 3)

    assert [erred.id, snoozed.id, reaped.id] == ids
    assert erred.attempts == most
    await expire(database, reaped.id)
    async with database.connection() as conn:
        await endings.retry(
            conn, job_id=erred.id, token=erred.claim_token, error="no", max_errors=5
        )
        await endings.snooze(
            conn,
            job_id=snoozed.id,
            token=snoozed.claim_token,
            delay=timedelta(minutes=1),
        )
        # Shorter than the server has been up.
        lease = timedelta(milliseconds=100)
        await reap(conn, lease=lease, max_lost_leases=20)
    found = {job_id: await record(database, job_id) for job_id in ids}
    assert (found[erred.id].status, found[erred.id].errors) == ("failed", most)
    assert (found[snoozed.id].status, found[snoozed.id].snoozes) == ("pending", most)
    assert (found[reaped.id].status, found[reaped.id].lost_leases) == ("failed", most)


async def test_q1_no_character_breaks_a_claim_whatever_the_clients_encoding(
    database: Database, database_url: str
) -> None:
    name = psycopg.conninfo.conninfo_to_dict(database_url)["dbname"]
    await rows(database, f"alter database \"{name}\" set client_encoding = 'LATIN1'")
    await rows(
        database,
        'insert into {s}.jobs (kind, payload) values (%s, \'{"t": "漢"}\')',
        KIND,
    )
    latin = psycopg.conninfo.make_conninfo(database_url, client_encoding="LATIN1")
    for url in (database_url, latin):
        async with Database(url, schema="indexer") as other:
            job = await claim_one(other)
            assert job.payload == {"t": "漢"}
            async with other.connection() as conn:
                await endings.retry(
                    conn,
                    job_id=job.id,
                    token=job.claim_token,
                    error="no 漢",
                    max_errors=5,
                )
        assert (await record(database, job.id)).last_error == "no 漢"
        await make_due(database)


@pytest.mark.parametrize("time", ["infinity", "-infinity", "0044-03-15 12:00+00 BC"])
async def test_a_time_that_no_client_could_read_is_refused_at_the_door(
    database: Database, time: str
) -> None:
    for column in ("run_at", "created_at"):
        with pytest.raises(psycopg.errors.CheckViolation):
            await rows(
                database,
                f"insert into {{s}}.jobs (kind, payload, {column})"
                " values ('test', '{}', %s)",
                time,
            )


async def test_claims_whose_answer_was_lost_are_handed_back_without_an_attempt(
    database: Database,
) -> None:
    await add(database, 3)
    [known, *_] = await claim(database, 2, worker="me")
    [others] = await claim(database, 1, worker="somebody else")

    async with database.connection() as conn:
        assert await release_strays(conn, worker="me", known=[known.id]) == 1

    assert await rows(
        database, "select id, attempts from {s}.jobs where status = 'running'"
    ) == [(known.id, 1), (others.id, 1)]
    assert (await claim_one(database)).attempts == 1


async def test_plans_of_claim_and_reap_use_their_partial_indexes(
    each_database_url: str,
) -> None:
    async with queue(each_database_url) as database:
        await add(database, 20_000)
        await rows(
            database,
            "update {s}.jobs set status = 'running', locked_until = now()"
            " where id %% 100 = 0 and %s",
            True,
        )
        await rows(database, "vacuum analyze {s}.jobs")
        queries = load("jobs")
        claim_plan = await _plan(
            database,
            queries["claim_jobs"],
            worker="w",
            kinds=[KIND],
            limit=10,
            lease=LEASE,
            priority=10,
            deadline=None,
            after_run_at=claims.FRONT.run_at,
            after_id=claims.FRONT.job_id,
        )
        finish_plan = await _plan(
            database,
            queries["finish_jobs"],
            ids=[100, 200],
            tokens=[uuid4(), uuid4()],
            schema=database.schema,
        )
        reap_plan = await _plan(
            database,
            queries["reap_jobs"],
            lease=LEASE,
            batch=500,
            max_lost_leases=20,
        )
        lanes_plan = await _plan(
            database, queries["pending_lanes"], schema=database.schema
        )

    assert "jobs_claimable_idx" in claim_plan and '"Sort"' not in _inner(claim_plan)
    # The mark is where the scan of the index starts, not a filter on what it reads.
    assert "(ROW(run_at, id) > ROW(" in _condition(claim_plan)
    assert "jobs_running_idx" in reap_plan
    assert "jobs_claimable_idx" in lanes_plan
    for plan in (claim_plan, finish_plan, reap_plan, lanes_plan):
        assert "Seq Scan" not in plan


async def test_small_claims_are_planned_once_for_each_size_of_the_table(
    database: Database,
) -> None:
    await add(database, 40)
    async with database.connection() as conn:
        [lane] = await pending_lanes(conn)
    assert lane.table_bytes > 0
    conn = await database.connect()
    async with conn:
        for magnitude in (13, 30):
            for _ in range(20):
                taken = await claims.claim(
                    conn,
                    worker="w",
                    kinds=[KIND],
                    limit=1,
                    lease=LEASE,
                    priority=10,
                    magnitude=magnitude,
                )
                assert len(taken) == 1
        cursor = await conn.execute(
            b"select generic_plans > 0 from pg_prepared_statements"
            b" where statement like '%limit 1::integer%'"
        )
        assert await cursor.fetchall() == [(True,), (True,)]


async def _plan(database: Database, query: Query, **parameters: object) -> str:
    async with database.connection() as conn:
        cursor = await conn.execute(
            b"explain (format json, costs off) " + query.on(conn.schema),
            parameters or None,
        )
        [[plan]] = await cursor.fetchall()
    return json.dumps(plan)


def _condition(plan: str) -> str:
    """Return where the scan of a claim's index starts and ends."""
    found = re.search(r'"jobs_claimable_idx".*?"Index Cond": "([^"]*)"', plan)
    assert found is not None
    return found[1]


def _inner(plan: str) -> str:
    """Return the part of a claim's plan that finds the rows (the final sort is not)."""
    return plan[plan.index('"LockRows"') :]
