"""How long ``status`` takes beside 20,000,000 blocks and 1,000,000 jobs."""

from __future__ import annotations

import asyncio
import json
import time

import psycopg
import pytest

from indexer.db.migrate import migrate
from tests.support import postgres
from tests.support.program import run

BLOCKS = 20_000_000
JOBS = 1_000_000
_PARTITION = 1_000_000
_TIMES = 5


@pytest.mark.bench
def test_status_beside_a_whole_chain() -> None:
    with postgres.private_server() as server:
        asyncio.run(migrate(server.url, schema="indexer"))
        with psycopg.connect(server.url, autocommit=True) as conn:
            _store_blocks(conn)
            _queue_jobs(conn)
            _finish_jobs(conn)
            for vacuumed in (False, True):
                if vacuumed:
                    conn.execute("vacuum analyze")
                _measure(server.url, "vacuumed" if vacuumed else "as written")


def _store_blocks(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    conn.execute(
        "insert into indexer.plans (from_block, to_block, range_size, jobs_queued)"
        " values (0, 24999999, 10000, 2500)"
    )
    for first in range(0, BLOCKS, _PARTITION):
        end = first + _PARTITION
        conn.execute(
            f"create table indexer.blocks_{first} partition of indexer.blocks"
            f" for values from ({first}) to ({end})".encode()
        )
        conn.execute(
            "insert into indexer.blocks (number, hash, parent_hash, timestamp)"
            " select n, int8send(n), int8send(n - 1), now() - interval '1 minute'"
            " from generate_series(%s::bigint, %s::bigint) as n",
            [first, end - 1],
        )
    conn.execute(
        "insert into indexer.coverage (dataset, bucket, stored, proven)"
        " select d, b, piece, piece - int8multirange(int8range(b * 10000, b * 10000"
        " + case when b %% 7 = 0 then 5 else 0 end))"
        " from generate_series(0, %s) as b, unnest(array['blocks', 'events']) as d,"
        " lateral (select int8multirange(int8range(b * 10000, (b + 1) * 10000)))"
        " as held (piece)",
        [BLOCKS // 10_000 - 1],
    )


def _queue_jobs(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    conn.execute(
        "insert into indexer.jobs (kind, payload, status, last_error, last_error_at)"
        " select case when n %% 2 = 0 then 'index_blocks' else 'index_events' end,"
        " jsonb_build_object('from', n * 10, 'to', n * 10 + 9),"
        " case when n %% 100 = 0 then 'failed' else 'pending' end,"
        " case when n %% 100 = 0 then 'ProofFailed: block ' || n || ' is wrong' end,"
        " case when n %% 100 = 0 then now() - n * interval '1 second' end"
        " from generate_series(1, %s) as n",
        [JOBS],
    )


def _finish_jobs(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    conn.execute(
        "do $$ begin execute format("
        "'create table indexer.jobs_history_%s partition of indexer.jobs_history"
        " for values from (%L) to (%L)', to_char(now() at time zone 'UTC', 'YYYYMMDD'),"
        " date_trunc('day', now(), 'UTC'),"
        " date_trunc('day', now(), 'UTC') + interval '1 day'); end $$"
    )
    conn.execute(
        "insert into indexer.jobs_history (id, kind, payload, status, run_at, attempts,"
        " created_at, priority, errors, lost_leases, snoozes, claimed_at, finished_at)"
        " select n, 'index_blocks', jsonb_build_object('from', n, 'to', n + 9), 'done',"
        " now(), 1, now(), 10, 0, 0, 0, at - interval '1 second', at from ("
        "   select n, greatest(now() - (%s - n) * interval '5 ms',"
        "     date_trunc('day', now(), 'UTC')) as at"
        "   from generate_series(1, %s) as n) as made",
        [JOBS, JOBS],
    )


def _measure(url: str, state: str) -> None:
    seconds = []
    for _ in range(_TIMES):
        began = time.monotonic()
        result = run("status", "--json", "--database-url", url)
        seconds.append(time.monotonic() - began)
        found = json.loads(result.stdout)
        assert found["progress"]["stored_blocks"] == BLOCKS
        assert found["queue"]["pending"] > JOBS / 2
    shown = ", ".join(f"{each:.2f}" for each in seconds)
    print(f"\nstatus --json, {state}: {shown} s")  # noqa: T201 - what it is for
