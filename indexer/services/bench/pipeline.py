"""The pipeline as a user runs it: plan, then ``indexer work --drain``."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from indexer.db.connection import Database
from indexer.db.queries import load
from indexer.ranges import BlockRange
from indexer.services.bench.node import Asked, BenchNode
from indexer.services.bench.processes import BenchmarkFailed, Usage, run
from indexer.services.plan import plan

_QUERIES = load("bench")
_SPAN = _QUERIES["span_of_work"]
_ROWS = _QUERIES["count_rows"]


class WorkSettings(NamedTuple):
    """How the worker is started."""

    concurrency: int = 10
    processes: int = 1
    verify: str = "off"


class Ran(NamedTuple):
    """One drained backfill."""

    seconds: float
    rows: int
    worker: Usage
    asked: Asked


def _arguments(database: Database, url: str, settings: WorkSettings) -> list[str]:
    given = {
        "--database-url": database.url,
        "--schema": database.schema,
        "--rpc-url": url,
        "--concurrency": settings.concurrency,
        "--processes": settings.processes,
        "--verify": settings.verify,
    }
    flags = [str(part) for pair in given.items() for part in pair]
    return ["work", "--drain", *flags]


async def work(database: Database, url: str, settings: WorkSettings) -> Usage:
    """Run a worker until nothing is left, and return what it used."""
    arguments = _arguments(database, url, settings)
    # What the benchmark was told is on the command line; the log is nobody's.
    env = {"INDEXER_LOG_FORMAT": "json"}
    return await asyncio.to_thread(run, *arguments, env=env)


async def backfill(
    database: Database,
    node: BenchNode,
    *,
    blocks: int,
    range_size: int,
    settings: WorkSettings,
) -> Ran:
    """Index the first ``blocks`` heights into an empty schema.

    Timed by the database, from the first claim to the last completion: what a process
    takes to start does not matter to a backfill of hours. Raises BenchmarkFailed
    where not every job was done.
    """
    whole = BlockRange(0, blocks - 1)
    made = await plan(database, blocks=whole, range_size=range_size)
    before = await node.asked()
    used = await work(database, node.url, settings)
    asked = (await node.asked()).since(before)
    async with database.connection() as conn:
        jobs, seconds = await _SPAN.row(conn) or (0, 0.0)
        counted = await _ROWS.row(conn)
    if jobs != 2 * len(made.block_jobs):
        raise BenchmarkFailed(
            f"{jobs} jobs were finished of {2 * len(made.block_jobs)}; "
            f"see `indexer jobs list --schema {database.schema}`"
        )
    return Ran(float(seconds), int(counted[0]) if counted else 0, used, asked)
