"""How long ``status`` takes beside 20,000,000 blocks and 1,000,000 jobs."""

from __future__ import annotations

import asyncio
import json
import statistics
import time

import psycopg
import pytest

from indexer.db.migrate import migrate
from tests.support import postgres
from tests.support.program import run

BLOCKS = 20_000_000
JOBS = 1_000_000
_PARTITION = 1_000_000

# A sparse mainnet block: every column it has, 600 bytes a row.
_BLOCKS = """
insert into {table}
select
    n, sha256(int8send(n)), sha256(int8send(n - 1)),
    now() - (%(last)s - n) * interval '12 seconds', substr(sha256(int8send(n)), 1, 20),
    5000, 0, null, 540, 17171480576, null, int8send(n), sha256(int8send(-n)),
    sha256(''), decode(repeat('00', 256), 'hex'), sha256('a'), sha256(int8send(n + 7)),
    sha256('b'), null, null, null, null, null, substr(sha256(int8send(n)), 1, 24),
    null, null
from generate_series(%(first)s::bigint, %(end)s::bigint) as n
"""


@pytest.mark.bench
@pytest.mark.timeout(1800)
def test_status_beside_a_whole_chain() -> None:
    with postgres.private_server(maintenance_work_mem="512MB") as server:
        build(server.url)
        measure(server.url, "as written")
        with psycopg.connect(server.url, autocommit=True) as conn:
            conn.execute("vacuum analyze")
        measure(server.url, "vacuumed")
        for _ in range(2):
            server.restart()
            measure(server.url, "first after a restart of PostgreSQL", times=1)


def build(url: str) -> None:
    """Fill an empty database; takes some minutes and 20 GB."""
    asyncio.run(migrate(url, schema="indexer"))
    with psycopg.connect(url, autocommit=True) as conn:
        _store_blocks(conn)
        _queue_jobs(conn)
        _finish_jobs(conn)


def _store_blocks(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    conn.execute(
        "insert into indexer.plans (from_block, to_block, range_size, jobs_queued)"
        " values (0, 24999999, 10000, 2500)"
    )
    for first in range(0, BLOCKS, _PARTITION):
        end = first + _PARTITION
        # Its indexes are made when it is full, at a third of the time.
        table = f"indexer.blocks_{first}"
        conn.execute(
            f"create table {table} (like indexer.blocks including defaults"
            " including constraints)".encode()
        )
        conn.execute(
            _BLOCKS.replace("{table}", table).encode(),
            {"first": first, "end": end - 1, "last": BLOCKS - 1},
        )
        conn.execute(
            f"alter table indexer.blocks attach partition {table}"
            f" for values from ({first}) to ({end})".encode()
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


def measure(url: str, state: str, *, times: int = 5) -> None:
    """Print how long the command takes, each time in a process of its own."""
    seconds = []
    for _ in range(times):
        began = time.monotonic()
        result = run("status", "--json", "--database-url", url)
        seconds.append(time.monotonic() - began)
        found = json.loads(result.stdout)
        assert found["progress"]["stored_blocks"] == BLOCKS
        assert found["queue"]["pending"] > JOBS / 2
    print(  # noqa: T201 - what it is for
        f"\nstatus --json, {state}: median {statistics.median(seconds):.2f} s,"
        f" longest {max(seconds):.2f} s of {times}"
    )
