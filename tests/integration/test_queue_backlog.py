from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from indexer.db.connection import Database
from indexer.db.migrate import migrate
from indexer.errors import ConfigError
from indexer.jobs import endings
from indexer.jobs.backlog import (
    JobFilter,
    any_job_left,
    cancel,
    count_jobs,
    count_unknown_kinds,
    enqueue,
    list_jobs,
    oldest_pending_age,
    retry_failed,
    show_job,
)
from indexer.jobs.errortext import MAX_ERROR_BYTES, UNRECORDABLE
from tests.support.jobs import KIND, add, claim, claim_one, queue, record, rows
from tests.support.postgres import in_database


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with queue(database_url) as opened:
        yield opened


async def fail(database: Database, error: str) -> int:
    await add(database)
    job = await claim_one(database)
    async with database.connection() as conn:
        await endings.fail(conn, job_id=job.id, token=job.claim_token, error=error)
    return job.id


async def test_r2_any_number_of_jobs_is_one_statement_and_one_notification(
    database: Database,
) -> None:
    payloads = [{"from": n * 10_000, "to": n * 10_000 + 9_999} for n in range(200)]
    async with database.connection() as conn:
        heard: list[str] = []
        conn.add_notify_handler(lambda note: heard.append(note.payload))
        await conn.execute(b"listen jobs_ready")
        ids = await enqueue(conn, kind="index_blocks", payloads=payloads)
        await conn.execute(b"unlisten jobs_ready")
        assert heard == ["indexer"]

    assert len(ids) == 200 and ids == sorted(ids)
    stored = await rows(database, "select payload from {s}.jobs order by id")
    assert [row[0] for row in stored] == payloads


async def test_r21_jobs_appear_with_the_transaction_that_causes_them(
    database: Database,
) -> None:
    with pytest.raises(RuntimeError):
        async with database.transaction() as conn:
            await enqueue(conn, kind=KIND, payloads=[{}])
            raise RuntimeError
    assert await rows(database, "select id from {s}.jobs") == []


async def test_no_payloads_are_no_statement(database: Database) -> None:
    async with database.connection() as conn:
        assert await enqueue(conn, kind=KIND, payloads=[]) == []


async def test_values_come_back_as_they_were_enqueued(database: Database) -> None:
    payload = {"big": 2**256 - 1, "text": "ü\\u0000'\"", "deep": [{"a": None}, 1.5]}
    async with database.connection() as conn:
        await enqueue(conn, kind=KIND, payloads=[payload])
    assert (await claim_one(database)).payload == payload


async def test_q11_a_payload_that_cannot_be_stored_leaves_nothing_behind(
    database: Database,
) -> None:
    async with database.transaction() as conn:
        with pytest.raises(ConfigError, match="payload 1 of the 'test' jobs"):
            await enqueue(conn, kind=KIND, payloads=[{}, {"n": "a\0b"}])
        await enqueue(conn, kind=KIND, payloads=[{"n": 1}])
    assert await rows(database, "select payload from {s}.jobs") == [({"n": 1},)]


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_q11_a_database_of_another_encoding_takes_what_it_has_a_place_for(
    server: str, encoding: str
) -> None:
    name = f"test_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(
            f"create database {name} template template0 encoding '{encoding}'"
            " lc_collate 'C' lc_ctype 'C'"
        )
        url = in_database(server, name)
        try:
            await migrate(url, schema="indexer")
            async with queue(url) as database:
                await add(database)
                if encoding == "LATIN1":
                    with pytest.raises(ConfigError, match="encoding UTF8"):
                        await add(database, kind="漢")
                async with database.connection() as conn:
                    job = await claim_one(database)
                    await endings.fail(
                        conn, job_id=job.id, token=job.claim_token, error="no 漢"
                    )
                assert (await record(database, job.id)).status == "failed"
        finally:
            admin.execute(f"drop database {name} with (force)")


async def test_counts_kinds_and_ages(database: Database) -> None:
    async with database.connection() as conn:
        assert await oldest_pending_age(conn) is None
        assert not await any_job_left(conn, kinds=[KIND])
        await add(database, 3)
        await add(database, 2, kind="another")
        await claim_one(database)
        await rows(
            database,
            "update {s}.jobs set run_at = now() - interval '1 hour'"
            " where status = 'pending'",
        )
        assert await count_jobs(conn) == {
            ("another", "pending"): 2,
            (KIND, "pending"): 2,
            (KIND, "running"): 1,
        }
        assert await count_unknown_kinds(conn, kinds=[KIND]) == {"another": 2}
        age = await oldest_pending_age(conn)
        assert age is not None and timedelta(hours=1) <= age < timedelta(hours=2)
        assert await any_job_left(conn, kinds=[KIND])


async def test_a_job_that_is_not_due_counts_as_left_but_has_no_age(
    database: Database,
) -> None:
    await add(database, run_after=timedelta(hours=1))
    async with database.connection() as conn:
        assert await any_job_left(conn, kinds=[KIND])
        assert not await any_job_left(conn, kinds=["another"])
        assert await oldest_pending_age(conn) is None


async def test_jobs_are_listed_by_what_is_known_of_them(database: Database) -> None:
    failed = await fail(database, "The Node said No")
    [pending] = await add(database)
    [other] = await add(database, kind="another")
    async with database.connection() as conn:

        async def ids(**which: object) -> list[int]:
            found = await list_jobs(conn, which=JobFilter(**which))  # type: ignore[arg-type]
            return [job.id for job in found]

        assert await ids() == [other, pending, failed]
        assert await ids(kind=KIND) == [pending, failed]
        assert await ids(status="failed") == [failed]
        assert await ids(error="node SAID") == [failed]
        assert await ids(error="nobody said") == []
        assert await ids(ids=[other, failed]) == [other, failed]
        assert len(await list_jobs(conn, which=JobFilter(), limit=2)) == 2
        assert await show_job(conn, job_id=999_999) is None


async def test_a_payload_that_cannot_be_read_is_listed_all_the_same(
    database: Database,
) -> None:
    digits = "1" + "0" * 5000
    await rows(
        database,
        "insert into {s}.jobs (kind, payload, progress)"
        " select 'x', j, j from (select %s::jsonb) as it (j)",
        f'{{"n": {digits}}}',
    )
    async with database.connection() as conn:
        [found] = await list_jobs(conn, which=JobFilter())
    assert found.payload == found.progress == f'{{"n": {digits}}}'


async def test_failed_jobs_start_again_from_zero_and_keep_their_progress(
    database: Database,
) -> None:
    job_id = await fail(database, "the node is wrong")
    other = await fail(database, "something else")
    [pending] = await add(database, run_after=timedelta(hours=1))
    await rows(
        database,
        """update {s}.jobs set progress = '{"next": 5}', lost_leases = 3, snoozes = 2
        where status = 'failed'""",
    )

    async with database.connection() as conn:
        heard: list[str] = []
        conn.add_notify_handler(lambda note: heard.append(note.payload))
        await conn.execute(b"listen jobs_ready")
        which = JobFilter(ids=[job_id, pending], error="NODE")
        assert await retry_failed(conn, which=which) == 1
        assert await retry_failed(conn, which=which) == 0
        await conn.execute(b"unlisten jobs_ready")
        assert heard == ["indexer"]

    again = await claim_one(database)
    assert (again.id, again.progress) == (job_id, {"next": 5})
    assert (again.attempts, again.errors, again.lost_leases, again.snoozes) == (
        1,
        0,
        0,
        0,
    )
    assert (await record(database, other)).status == "failed"


async def test_waiting_jobs_are_cancelled_and_running_ones_are_told(
    database: Database,
) -> None:
    failed = await fail(database, "no")
    running, pending = await add(database, 2)
    await claim(database)
    await add(database, kind="another")

    async with database.connection() as conn:
        assert await cancel(conn, which=JobFilter(kind=KIND)) == (2, 1)
        assert await cancel(conn, which=JobFilter(kind=KIND)) == (0, 0)

    assert (await record(database, failed)).status == "cancelled"
    assert (await record(database, pending)).status == "cancelled"
    assert (await record(database, running)).status == "running"
    assert await rows(
        database, "select kind, status from {s}.jobs where status = 'pending'"
    ) == [("another", "pending")]


@pytest.mark.parametrize(
    ("error", "stored"),
    [
        ("a\0b", "a\N{REPLACEMENT CHARACTER}b"),
        ("a\ud800b", "a\N{REPLACEMENT CHARACTER}b"),
        ("password=hunter2", "password=***"),
    ],
)
async def test_q11_an_error_text_is_cleaned_and_stored(
    database: Database, error: str, stored: str
) -> None:
    job_id = await fail(database, error)
    assert (await record(database, job_id)).last_error == stored


async def test_q11_an_error_of_ten_megabytes_is_cut(database: Database) -> None:
    job_id = await fail(database, "deadbeef" * 1_250_000)
    stored = (await record(database, job_id)).last_error
    assert stored is not None
    assert len(stored.encode()) <= MAX_ERROR_BYTES
    assert stored.startswith("deadbeef") and stored.endswith("…")


@pytest.mark.parametrize("inside", [True, False], ids=["in a transaction", "alone"])
async def test_q11_where_the_text_is_refused_a_placeholder_is_recorded(
    database: Database, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings, "clean", lambda text: text)
    await add(database)
    job = await claim_one(database)
    lend = database.transaction if inside else database.connection
    async with lend() as conn:
        status = await endings.retry(
            conn, job_id=job.id, token=job.claim_token, error="a\0b", max_errors=5
        )
    assert status == "pending"
    assert (await record(database, job.id)).last_error == UNRECORDABLE
