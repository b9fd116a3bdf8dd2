from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import AsyncIterator
from typing import Any

import pytest
from click.testing import CliRunner

from indexer.cli.jobs import jobs as jobs_command
from indexer.db.connection import Database
from indexer.jobs import endings
from indexer.jobs.history import ensure_history
from indexer.jobs.reaper import reap
from indexer.services.dashboard.chainmap import read_map
from indexer.services.exporter import Exporter
from indexer.services.status import Pace, read_status
from indexer.services.status import lately as status_lately
from indexer.services.status import queue as status_queue
from tests.support.jobs import LEASE, add, claim, claim_one, expire, queue, rows

BLOCKS = "index_blocks"


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with queue(database_url) as opened:
        yield opened


async def metrics(database: Database) -> dict[str, float]:
    """Return what a fresh exporter says, without the schema in the labels."""
    text = (await Exporter(database).exposition()).decode()
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, number = line.rpartition(" ")
            name = (
                re.sub(r'schema="indexer",?', "", name)
                .replace(",}", "}")
                .replace("{}", "")
            )
            found[name] = float(number)
    return found


async def finish(database: Database, *, seconds: float, heights: int = 100) -> None:
    """Run one job to its end, as if it had taken that long."""
    [job_id] = await add(database, 1, kind=BLOCKS)
    await rows(
        database,
        "update {s}.jobs set payload = jsonb_build_object('from', 0, 'to', %s::int)"
        " where id = %s",
        heights - 1,
        job_id,
    )
    [job] = await claim(database, kinds=[BLOCKS])
    await rows(
        database,
        "update {s}.jobs set claimed_at = now() - make_interval(secs => %s)"
        " where id = %s",
        seconds,
        job.id,
    )
    async with database.connection() as conn:
        await endings.complete(conn, job_id=job.id, token=job.claim_token)


async def test_pending_running_and_the_oldest_ones_age_move(database: Database) -> None:
    await add(database, 5)
    await rows(database, "update {s}.jobs set run_at = now() - interval '90 seconds'")
    await claim(database, 2)
    found = (await read_status(database))["queue"]
    assert found["kinds"] == {"test": {"pending": 3, "running": 2}}
    assert 90 <= found["oldest_pending_seconds"] < 200
    assert found["probe_seconds"] > 0
    assert found["unknown_kinds"] == {"test": 3}
    seen = await metrics(database)
    assert seen['indexer_queue_jobs{kind="test",status="pending"}'] == 3
    assert seen['indexer_queue_jobs{kind="test",status="running"}'] == 2
    assert 90 <= seen["indexer_queue_oldest_pending_age_seconds"] < 200
    assert 90 <= seen['indexer_queue_lane_oldest_age_seconds{priority="10"}'] < 200
    assert seen["indexer_queue_probe_seconds"] > 0


async def test_durations_and_the_rate_are_those_of_what_was_worked(
    database: Database,
) -> None:
    await rows(
        database,
        "insert into {s}.plans (from_block, to_block, range_size, jobs_queued)"
        " values (0, 999, 100, 10)",
    )
    for seconds in (10.0, 20.0, 60.0):
        await finish(database, seconds=seconds)
    found = await read_status(database)
    durations = found["queue"]["durations"][BLOCKS]
    assert durations["finished_last_hour"] == 3
    assert durations["median_seconds"] == pytest.approx(20, abs=5)
    assert durations["longest_seconds"] == pytest.approx(60, abs=5)
    progress = found["progress"]
    # 300 heights within the minute since the longest of them began.
    assert progress["rate"]["blocks_per_second"] == pytest.approx(5, rel=0.2)
    assert progress["rate"]["estimated"]
    assert progress["eta_seconds"] == pytest.approx(2000 / 5, rel=0.2)
    seen = await metrics(database)
    name = f'indexer_queue_job_duration_median_seconds{{kind="{BLOCKS}"}}'
    assert seen[name] == pytest.approx(20, abs=5)
    assert seen["indexer_queue_finished_last_hour"] == 3


async def test_a_jobs_own_progress_counts_before_it_ends(database: Database) -> None:
    await add(database, 1, kind=BLOCKS)
    await claim(database, kinds=[BLOCKS])
    await rows(
        database,
        'update {s}.jobs set payload = \'{"from": 1000, "to": 1999}\','
        " progress = '{\"next\": 1500}', claimed_at = now() - interval '100 seconds'",
    )
    found = await read_status(database)
    rate = found["progress"]["rate"]["blocks_per_second"]
    assert rate == pytest.approx(5, rel=0.2)


async def test_retries_failures_and_expired_leases_move(database: Database) -> None:
    before = (await read_status(database))["queue"]
    assert before["retry_rate"] == before["failure_rate"] == 0.0
    await add(database, 4)
    async with database.connection() as conn:
        for limit in (5, 1):
            job = await claim_one(database)
            await endings.retry(
                conn, job_id=job.id, token=job.claim_token, error="no",
                max_errors=limit,
            )  # fmt: skip
        lost, done = await claim(database, 2)
        await expire(database, lost.id)
        await reap(conn, lease=LEASE / 1e6, max_lost_leases=20)
        await endings.complete(conn, job_id=done.id, token=done.claim_token)
    found = (await read_status(database))["queue"]
    assert found["errors_last_hour"] == 2
    assert found["expired_leases_last_hour"] == 1
    assert found["finished_last_hour"] == 1
    assert found["retry_rate"] == 3 / 4
    assert found["failed"] == 1 and found["failure_rate"] == 1 / 2
    seen = await metrics(database)
    assert seen["indexer_queue_expired_leases_last_hour"] == 1
    assert seen["indexer_queue_retry_ratio"] == 3 / 4
    assert seen["indexer_queue_failure_ratio"] == 1 / 2
    assert seen["indexer_queue_failed"] == 1


async def test_failures_are_grouped_by_reason_and_the_command_retries_just_them(
    database: Database, database_url: str
) -> None:
    await add(database, 6)
    reasons = [
        "ProofFailed: block 17 should be 0xabcdef",
        "ProofFailed: block 99 should be 0x012345",
        "RpcError: it's https://user:hunter2@node/v3/hunter2",
    ]
    for reason in reasons:
        await rows(
            database,
            "update {s}.jobs set status = 'failed', last_error = %s where id ="
            " (select min(id) from {s}.jobs where status = 'pending')",
            reason,
        )
    proofs, refused = (await read_status(database))["failed"]
    assert (proofs["jobs"], refused["jobs"]) == (2, 1)
    assert "hunter2" not in str((proofs, refused))
    group, command, *arguments = shlex.split(proofs["retry"])[1:]
    assert (group, command) == ("jobs", "retry")
    result = await asyncio.to_thread(
        CliRunner().invoke,
        jobs_command,
        [command, *arguments, "--database-url", database_url],
    )
    assert result.exit_code == 0, result.output
    [left] = (await read_status(database))["failed"]
    assert left["jobs"] == 1 and left["reason"].startswith("RpcError")


async def test_a_large_queue_is_sampled_and_says_so(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_queue, "_COUNTED_PAGES", 20)
    monkeypatch.setattr(status_queue, "_SAMPLED_PAGES", 100)
    await rows(
        database,
        "insert into {s}.jobs (kind, payload)"
        " select case when n % 4 = 0 then 'index_events' else 'index_blocks' end, '{}'"
        " from generate_series(1, 30000) as n",
    )
    found = (await read_status(database))["queue"]
    assert found["pending_estimated"]
    assert found["pending"] == pytest.approx(30_000, rel=0.5)
    assert found["kinds"][BLOCKS]["pending"] == pytest.approx(22_500, rel=0.5)


async def test_a_long_history_is_read_from_its_end_and_scaled(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_lately, "_HISTORY_PAGES", 20)
    async with database.connection() as conn:
        await ensure_history(conn)
    # One a second for the last ten minutes, in the order in which they ended.
    await rows(
        database,
        "insert into {s}.jobs_history (id, kind, payload, status, run_at, attempts,"
        " created_at, priority, errors, lost_leases, snoozes, claimed_at, finished_at)"
        " select n, 'index_blocks', '{\"from\": 0, \"to\": 9}', 'done', now(), 1,"
        " now(), 10, 0, 0, 0, at - interval '3 seconds', at from ("
        "   select n, greatest("
        "     now() - make_interval(secs => (20000 - n) * 0.03),"
        "     date_trunc('day', now() at time zone 'UTC') at time zone 'UTC') as at"
        "   from generate_series(1, 20000) as n) as made",
    )
    found = await read_status(database)
    assert found["queue"]["last_hour_estimated"]
    each_hour = found["queue"]["finished_last_hour"]
    assert each_hour == pytest.approx(3600 / 0.03, rel=0.1)
    rate = found["progress"]["rate"]["blocks_per_second"]
    assert rate == pytest.approx(10 / 0.03, rel=0.3)


async def test_workers_are_shown_with_what_they_hold(database: Database) -> None:
    await rows(
        database,
        "insert into {s}.workers (name, role, host, pid, version, concurrency, kinds)"
        " values ('tester', 'work', 'here', 7, '1', 4, '{test}')",
    )
    await add(database, 2)
    await claim(database, 2)
    await rows(
        database,
        'update {s}.jobs set payload = \'{"from": 5, "to": 9}\' where id ='
        " (select min(id) from {s}.jobs)",
    )
    [worker] = (await read_status(database))["workers"]
    assert (worker["claims"], worker["concurrency"]) == (2, 4)
    assert [each["work"] for each in worker["holds"]] == ["blocks 5..9", '{"n": 1}']
    assert all(0 < each["lease_left_seconds"] <= 60 for each in worker["holds"])
    assert (await metrics(database))["indexer_workers_claims"] == 4


async def test_the_lag_is_that_behind_the_head_the_follower_noted(
    database: Database,
) -> None:
    await rows(
        database,
        "insert into {s}.chain (chain_id, genesis_hash, head_number, head_seen_at)"
        " values (1, '\\x00', 120, now())",
    )
    await rows(
        database,
        "create table {s}.blocks_0 partition of {s}.blocks"
        " for values from (0) to (999)",
    )
    await rows(
        database,
        "insert into {s}.blocks (number, hash, parent_hash, timestamp)"
        " values (100, '\\x01', '\\x00', now() - interval '1 minute')",
    )
    tip = (await read_status(database))["tip"]
    assert (tip["head_block"], tip["lag_blocks"]) == (120, 20)
    assert 60 <= tip["age_seconds"] < 120
    seen = await metrics(database)
    assert seen["indexer_tip_behind_blocks"] == 20
    assert seen["indexer_tip_stored_height"] == 100
    await rows(
        database, "update {s}.chain set head_seen_at = now() - interval '1 hour'"
    )
    assert (await read_status(database))["tip"]["lag_blocks"] is None


async def test_between_two_looks_the_rate_is_what_was_stored(
    database: Database,
) -> None:
    now = [0.0]
    pace = Pace(lambda: now[0])
    assert (await read_status(database, pace=pace))["progress"]["rate"]["estimated"]
    await rows(
        database,
        "insert into {s}.coverage (dataset, bucket, stored)"
        " values ('blocks', 0, '{[0,500)}')",
    )
    now[0] = 10.0
    rate: dict[str, Any] = (await read_status(database, pace=pace))["progress"]["rate"]
    assert rate["blocks_per_second"] == 50 and not rate["estimated"]


async def test_a_database_that_is_away_is_a_metric_and_a_reason(
    database: Database,
) -> None:
    now = [0.0]
    exporter = Exporter(database, clock=lambda: now[0])
    assert b'indexer_database_up{schema="indexer"} 1.0' in await exporter.exposition()
    assert exporter.complaint() is None
    await database.close()
    now[0] = 2.0
    assert b'indexer_database_up{schema="indexer"} 1.0' in await exporter.exposition()
    now[0] = 8.0
    gone = await exporter.exposition()
    assert b'indexer_database_up{schema="indexer"} 0.0' in gone
    assert b"indexer_queue_jobs" not in gone
    assert "could not be read" in (exporter.complaint() or "")
    await database.open()
    now[0] = 20.0
    assert b'indexer_database_up{schema="indexer"} 1.0' in await exporter.exposition()
    assert exporter.complaint() is None


# Whatever anybody inserts as a payload: no form of ours, and no number of this world.
ABSURD = (
    "{}", "[]", "5", '"x"', '{"from": "x", "to": 3}', '{"from": null, "to": {}}',
    '{"from": true, "to": 1}', '{"from": 1e30, "to": 1e31}', '{"height": 1e400}',
    '{"from": 5, "to": 1e400}', '{"from": -1e400, "to": 5}', '{"height": 1.5}',
)  # fmt: skip


async def test_no_payload_that_anybody_inserted_keeps_the_status_from_being_read(
    database: Database,
) -> None:
    for kind in (BLOCKS, "index_events", "mail"):
        for status in ("pending", "failed", "running"):
            await rows(
                database,
                "insert into {s}.jobs (kind, payload, status, attempts, progress,"
                " claimed_at, locked_by, claim_token, locked_until)"
                " select %s, payload::jsonb, %s, 1, '{\"next\": 1e400}',"
                " now() - interval '1 minute', 'w', gen_random_uuid(), now()"
                " from unnest(%s::text[]) as payload",
                kind,
                status,
                list(ABSURD),
            )
    await rows(
        database,
        "insert into {s}.jobs_history (id, kind, payload, status, run_at, attempts,"
        " created_at, finished_at, claimed_at, priority, errors, lost_leases, snoozes)"
        " select 1000000 + n, 'mail', payload::jsonb, 'done', now(), 1, now(), now(),"
        " now() - interval '1 minute', 10, 0, 0, 0"
        " from unnest(%s::text[]) with ordinality as p (payload, n)",
        list(ABSURD),
    )
    found = await read_status(database)
    assert found["queue"]["pending"] == 3 * len(ABSURD)
    assert (await metrics(database))["indexer_queue_running"] == 3 * len(ABSURD)
    await read_map(database)
