"""A worker to be attacked: its handler writes a ledger in the completing transaction.

Run as ``python -m tests.support.ledger URL LISTEN_URL LEASE_SECONDS SEED``. Every claim
that it is told is not its own any more becomes a line on stdout, ``refused HOW JOB
TOKEN``, before anything else happens with it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from datetime import timedelta
from random import Random

from indexer.db.connection import Database
from indexer.errors import ClaimLost
from indexer.jobs.execution import Execution, Interruption
from indexer.jobs.worker import Worker, WorkerSettings

KIND = "ledger"
# A kind that is claimed and completed in batches, apart from what it writes.
QUICK = "tally"
CONCURRENCY = 16

TABLE = """create table indexer.effects (
    job_id bigint not null,
    token uuid not null,
    pid integer not null,
    at timestamptz not null default clock_timestamp()
);
create table indexer.tallies (job_id bigint not null, token uuid not null)"""
_WRITE = b"insert into indexer.effects (job_id, token, pid) values (%s, %s, %s)"

_TALLY = b"insert into indexer.tallies (job_id, token) values (%s, %s)"

# How long a job pretends to fetch, so that claims are open while we are attacked.
_LONGEST_FETCH_SECONDS = 0.06
# Every so many jobs write a chunk of their own before the last one.
_CHUNKED = 4


async def write_ledger(execution: Execution) -> None:
    """Pretend to fetch, then write the effect and the completion in one."""
    job = execution.job
    draw = Random(job.id)
    try:
        await asyncio.sleep(draw.uniform(0.0, _LONGEST_FETCH_SECONDS))
        if job.id % _CHUNKED == 0 and job.progress is None:
            async with execution.chunk(progress={"fetched": job.id}):
                pass
            await asyncio.sleep(draw.uniform(0.0, _LONGEST_FETCH_SECONDS))
        async with execution.finish(result={"pid": os.getpid()}) as conn:
            await conn.execute(_WRITE, [job.id, execution.token, os.getpid()])
    except ClaimLost:
        _say("write", execution)
        raise
    except asyncio.CancelledError:
        if execution.interruption is Interruption.LOST:
            _say("heartbeat", execution)
        raise


async def tally(execution: Execution) -> None:
    """Write under the claim, and leave the completion to a batch of them."""
    try:
        async with execution.chunk() as conn:
            await conn.execute(_TALLY, [execution.job.id, execution.token])
    except ClaimLost:
        _say("write", execution)
        raise


def _say(how: str, execution: Execution) -> None:
    sys.stdout.write(f"refused {how} {execution.job.id} {execution.token}\n")
    sys.stdout.flush()


async def _main(url: str, listen_url: str, lease: float, seed: int) -> None:
    database = Database(
        url, schema="indexer", size=CONCURRENCY, reply_timeout=timedelta(seconds=3)
    )
    async with database:
        worker = Worker(
            database,
            handlers={KIND: write_ledger, QUICK: tally},
            quick=[QUICK],
            settings=WorkerSettings(
                concurrency=CONCURRENCY,
                lease=timedelta(seconds=lease),
                heartbeat=timedelta(seconds=lease / 4),
                poll_interval=timedelta(seconds=1),
                grace=timedelta(seconds=10),
            ),
            listen_url=listen_url,
            random=Random(seed),
        )
        for each in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(each, worker.request_stop)
        await worker.run()


if __name__ == "__main__":
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    asyncio.run(_main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])))
