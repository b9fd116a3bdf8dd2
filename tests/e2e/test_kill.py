"""Processes killed in the middle of their work, against the chain in the end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from tests.support.program import Program, run, until, value, watching
from tests.support.reader import differences

HEIGHT = 2_100
PLANNED = 2_000


@pytest.fixture
def node() -> Iterator[Devnode]:
    config = DevnodeConfig(profile="sparse", height=HEIGHT, finality_depth=64)
    with running_devnode(config) as running:
        yield running


def due_now(database_url: str) -> None:
    """Make what waits for a retry due: tests age rows, they do not sleep."""
    with watching(database_url) as conn:
        conn.execute("update indexer.jobs set run_at = now() where status = 'pending'")
        conn.execute("notify jobs_ready, 'indexer'")


def finished(database_url: str) -> list[tuple[object, ...]]:
    with watching(database_url) as conn:
        return conn.execute(
            "select kind, payload, status, attempts, lost_leases "
            "from indexer.jobs_history"
        ).fetchall()


def test_p2_a_killed_workers_range_goes_on_behind_its_last_chunk(
    node: Devnode, database_url: str
) -> None:
    where = ["--database-url", database_url, "--rpc-url", node.url]
    run("plan", "--from", "0", "--to", str(PLANNED), "--range-size", "500", *where)
    # One claim in flight each, small chunks and a short lease.
    options = ["--concurrency", "1", "--chunk-blocks", "5", "--lease", "2s"]
    with (
        Program("work", *options, *where) as doomed,
        Program("work", *options, *where) as other,
    ):
        until(
            lambda: (
                value(
                    database_url,
                    "select count(*) from indexer.jobs where status = 'running' "
                    "and progress is not null",
                )
                == 2
            ),
            what="both workers are in the middle of a range",
        )
        doomed.kill()
        with watching(database_url) as conn:
            held = conn.execute(
                "select id, (progress ->> 'next')::bigint, locked_until "
                "from indexer.jobs where status = 'running' and locked_by like %s",
                [f"%:{doomed.process.pid}:%"],
            ).fetchall()
        assert len(held) == 1
        job_id, resumes_at, leased_until = held[0]
        until(
            lambda: (
                value(
                    database_url,
                    f"select lost_leases from indexer.jobs where id = {job_id}",
                )
                == 1
            ),
            what="the other worker's reaper has taken the claim back",
        )
        with watching(database_url) as conn:
            revoked: list[tuple[Any, ...]] = conn.execute(
                "select last_error_at - %s, run_at - last_error_at "
                "from indexer.jobs where id = %s",
                [leased_until, job_id],
            ).fetchall()
        # By the database's clock: within another lease, and then the first backoff.
        [[revoked_after, due_after]] = revoked
        assert timedelta(0) < revoked_after < timedelta(seconds=2)
        assert timedelta(seconds=30) <= due_after <= timedelta(seconds=91)
        due_now(database_url)
        until(
            lambda: (
                value(
                    database_url,
                    "select count(*) from indexer.jobs where status <> 'failed'",
                )
                == 0
            ),
            what="every job is finished",
        )
        assert other.process.poll() is None
    assert differences(node.url, database_url, range(PLANNED)) == []
    jobs = finished(database_url)
    assert len(jobs) == 2 * PLANNED / 500
    assert {job[2] for job in jobs} == {"done"}
    assert sorted(job[4] for job in jobs) == [0] * (len(jobs) - 1) + [1]  # type: ignore[type-var]
    # P2: what was committed before the kill was not written again.
    assert isinstance(resumes_at, int)
    assert resumes_at > 0
    rewritten = value(
        database_url,
        "select count(*) from indexer.blocks as b "
        f"where b.number < {resumes_at} and b.number >= {resumes_at} / 500 * 500 "
        "and b.xmin::text::bigint > (select min(a.xmin::text::bigint) "
        f"from indexer.blocks as a where a.number = {resumes_at})",
    )
    assert rewritten == 0


def test_a_killed_follower_leaves_whole_blocks_and_goes_on(
    node: Devnode, database_url: str
) -> None:
    where = ["--database-url", database_url, "--rpc-url", node.url]
    start = HEIGHT - 64
    with Program("follow", "--from", str(start), *where) as doomed:
        until(
            lambda: value(database_url, "select max(number) from indexer.blocks"),
            what="the follower has stored a block",
        )
        node.mine(20)
        doomed.kill()
    node.mine(5)
    last = HEIGHT + 25
    again = run(
        "follow", "--from", str(start), "--until", str(last), "--lease", "1s", *where
    )
    assert again.returncode == 0, again.stderr
    work = run("work", "--drain", *where)
    assert work.returncode == 0, work.stderr
    assert differences(node.url, database_url, range(start, last + 1)) == []
    jobs = finished(database_url)
    assert len(jobs) == last - start + 1
    assert {job[2] for job in jobs} == {"done"}


def test_q2_a_worker_whose_claim_was_taken_writes_not_one_further_row(
    node: Devnode, database_url: str
) -> None:
    where = ["--database-url", database_url, "--rpc-url", node.url]
    run("plan", "--from", "0", "--to", str(PLANNED), *where)
    options = ["--concurrency", "1", "--chunk-blocks", "1"]
    with Program("work", *options, "--log-format", "text", *where) as worker:
        until(
            lambda: value(
                database_url, "select progress is not null from indexer.jobs limit 1"
            ),
            what="the worker is in the middle of its range",
        )
        with watching(database_url) as conn:
            taken = conn.execute(
                "update indexer.jobs set claim_token = gen_random_uuid(), "
                "locked_by = 'somebody else', locked_until = now() + interval '1 hour' "
                "returning id, (progress ->> 'next')::bigint"
            ).fetchone()
        assert taken is not None
        worker.expect(rf"job {taken[0]} .*: lost")
        assert (
            value(database_url, "select max(number) + 1 from indexer.blocks")
            == (taken[1])
        )
        assert value(
            database_url,
            "select locked_by || status || attempts from indexer.jobs",
        ) == ("somebody elserunning1")
    assert finished(database_url) == []
