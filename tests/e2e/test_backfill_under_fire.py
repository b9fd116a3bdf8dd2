"""A real backfill whose workers are killed and stalled and whose server restarts."""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack, suppress
from random import Random

import psycopg

from indexer.db.migrate import migrate
from indexer.devnode.server import DevnodeConfig, running_devnode
from tests.support.postgres import PrivateServer
from tests.support.program import Program, run, until, watching
from tests.support.reader import differences

BLOCKS = 3_000
WORKERS = 3
LEASE_SECONDS = 2
_ATTACKS = ("kill", "stall", "restart", "kill", "terminate", "stall", "kill", "crash")
_SEED = 5


def due_now(url: str) -> int:
    """End every backoff; return how many jobs are left, -1 while nobody answers."""
    with suppress(psycopg.OperationalError), watching(url) as conn:
        conn.execute(
            "update indexer.jobs set run_at = now() where id in (select id from"
            " indexer.jobs where status = 'pending' for update skip locked)"
        )
        row = conn.execute("select count(*) from indexer.jobs").fetchone()
        assert row is not None
        return int(str(row[0]))
    return -1


def test_q3_a_backfill_under_fire_ends_as_the_chain(
    private_server: PrivateServer,
) -> None:
    url = private_server.url
    asyncio.run(migrate(url, schema="indexer"))
    random = Random(_SEED)
    config = DevnodeConfig(profile="sparse", height=BLOCKS + 100, finality_depth=64)
    with running_devnode(config) as node, ExitStack() as stack:
        where = ["--database-url", url, "--rpc-url", node.url]
        options = ["--concurrency", "2", "--chunk-blocks", "5"]
        options += ["--lease", f"{LEASE_SECONDS}s", "--poll-interval", "1s"]
        planned = run(
            *("plan", "--from", "0", "--to", str(BLOCKS), "--range-size", "150"), *where
        )
        assert planned.returncode == 0, planned.stderr

        def start() -> Program:
            return stack.enter_context(Program("work", *options, *where))

        workers = [start() for _ in range(WORKERS)]
        for attack in random.sample(_ATTACKS, len(_ATTACKS)):
            before = due_now(url)
            until(
                lambda: 0 <= due_now(url) < before or due_now(url) == 0,  # noqa: B023
                what="somebody has finished a job",
            )
            place = random.randrange(WORKERS)
            if attack == "kill":
                workers[place].kill()
                workers[place] = start()
            elif attack == "stall":
                _stall(workers[place], url)
            elif attack == "terminate":
                with watching(url) as conn:
                    conn.execute(
                        "select pg_terminate_backend(pid) from pg_stat_activity"
                        " where application_name like 'indexer%'"
                    )
            else:
                private_server.restart("fast" if attack == "restart" else "immediate")
        until(lambda: due_now(url) == 0, what="every job is finished", seconds=120)
        assert differences(node.url, url, range(BLOCKS)) == []
        with watching(url) as conn:
            jobs = conn.execute(
                "select status, errors, attempts - lost_leases from"
                " indexer.jobs_history group by 1, 2, 3"
            ).fetchall()
    assert jobs == [("done", 0, 1)]


def _stall(worker: Program, url: str) -> None:
    """Stop a worker that holds claims, until somebody has taken them back."""
    pid = worker.process.pid
    for _ in range(50):
        until(lambda: _held(url, pid) or due_now(url) == 0, what="it has claimed")
        worker.signal(signal.SIGSTOP)
        if _held(url, pid):
            break
        # It ended in the moment in between.
        worker.signal(signal.SIGCONT)
    until(lambda: _held(url, pid) == 0, what="what a stalled worker held is taken back")
    worker.signal(signal.SIGCONT)


def _held(url: str, pid: int) -> int:
    """Return how many claims a process holds, -1 while nobody answers."""
    with suppress(psycopg.OperationalError), watching(url) as conn:
        row = conn.execute(
            "select count(*) from indexer.jobs"
            " where status = 'running' and locked_by like %s",
            [f"%:{pid}:%"],
        ).fetchone()
        assert row is not None
        return int(str(row[0]))
    return -1
