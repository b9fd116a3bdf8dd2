"""The whole thing on one machine: plan, work, follow, and a few SQL answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any, NamedTuple

from indexer.chain.endpoints import Endpoints
from indexer.chain.tip import head_number
from indexer.config import Config
from indexer.db.connection import Database
from indexer.db.queries import Query, load
from indexer.devnode.server import DevnodeConfig, running_devnode
from indexer.ranges import BlockRange
from indexer.services.finality import clamp_to_final
from indexer.services.follow import make_follower
from indexer.services.identity import check_identity
from indexer.services.plan import plan
from indexer.services.work import make_worker
from indexer.store import blocks as stored

_QUERIES = load("demo")

# The first run's head: the blocks asked for, and as many above them as a finalized
# height trails the head by.
_FINALITY_DEPTH = 64
_BLOCK_SECONDS = 1.0

_LEASE = timedelta(seconds=15)


class Answer(NamedTuple):
    """A question, the SQL that answers it, and the answer."""

    question: str
    sql: str
    columns: list[str]
    rows: list[tuple[Any, ...]]


Progress = Callable[[], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def demo_node(database: Database, *, blocks: int) -> AsyncIterator[str]:
    """Run the built-in node and give its URL.

    Its chain depends on nothing but its settings, so a second demo meets the same
    chain, further on: the head starts above what the first one stored.
    """
    async with database.connection() as conn:
        highest = await stored.highest_block(conn)
    height = max(blocks + _FINALITY_DEPTH, highest.number if highest else 0)
    config = DevnodeConfig(
        profile="sparse",
        height=height,
        block_time=_BLOCK_SECONDS,
        finality_depth=_FINALITY_DEPTH,
    )
    with running_devnode(config) as node:
        yield node.url


async def run_demo(
    config: Config,
    database: Database,
    endpoints: Endpoints,
    *,
    blocks: int,
    tip_blocks: int,
    say: Callable[[str], None],
    progress: Progress,
) -> list[Answer]:
    """Plan and index the first blocks, follow the tip for some, answer by SQL.

    Run again it finds what is stored and goes on from there.
    """
    await check_identity(database, endpoints)
    whole, notes = await clamp_to_final(
        endpoints, first=0, end=blocks, depth=config.finality_depth
    )
    made = await plan(database, blocks=whole)
    queued = len(made.block_jobs) + len(made.event_jobs)
    say(
        f"plan: {queued} jobs queued for blocks {whole} ({made.missing_blocks} missing)"
    )
    for note in notes:
        say(note)
    if made.missing_blocks and not queued:
        say(
            "they are queued since an earlier run; what it held when it was killed "
            f"goes on once its lease of {config.lease.total_seconds():g} s is over"
        )
    say(f"work: {config.concurrency} claims in flight, until nothing is left to run")
    worker = await make_worker(config, database, endpoints)
    async with progress():
        await worker.run(drain=True)
    await _follow(config, database, endpoints, whole, tip_blocks, say)
    return [await _answer(database, name) for name in _QUERIES]


async def _follow(
    config: Config,
    database: Database,
    endpoints: Endpoints,
    whole: BlockRange,
    tip_blocks: int,
    say: Callable[[str], None],
) -> None:
    head = await head_number(endpoints)
    until = head + tip_blocks
    say(f"follow: the node is at block {head}; following to block {until}")
    worker = await make_worker(config, database, endpoints)
    working = asyncio.create_task(worker.run(drain=False))
    try:
        follower = await make_follower(
            database,
            endpoints,
            lease=_LEASE,
            finality_depth=config.finality_depth,
            until=until,
        )
        await follower.run()
    finally:
        worker.request_stop()
        await working
    last = await make_worker(config, database, endpoints)
    await last.run(drain=True)


async def _answer(database: Database, name: str) -> Answer:
    query: Query = _QUERIES[name]
    async with database.connection() as conn:
        text = query.on(conn.schema).decode()
        cursor = await conn.execute(query.on(conn.schema))
        columns = [each.name for each in cursor.description or ()]
        rows = await cursor.fetchall()
    question, sql = _split_comment(text)
    return Answer(question, sql, columns, rows)


def _split_comment(text: str) -> tuple[str, str]:
    lines = text.splitlines()
    comment = [line.removeprefix("--").strip() for line in lines if line[:2] == "--"]
    return " ".join(comment), "\n".join(line for line in lines if line[:2] != "--")
