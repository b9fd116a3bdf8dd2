"""A follower and a worker beside a test, and a reader that trusts neither."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from time import monotonic
from typing import Any

import psycopg

from indexer.chain.endpoints import Endpoints
from indexer.config import load_config
from indexer.db.connection import Database
from indexer.devnode.server import Devnode
from indexer.jobs.history import ensure_history
from indexer.services.follow import Follower, make_follower
from indexer.services.work import make_worker
from tests.support.reader import ask

_PATIENCE_SECONDS = 60.0

# Each is nothing in a database that is whole, at every moment.
_TORN = {
    "a block without its parent": """
        select number from indexer.blocks as b
        where number > (select min(number) from indexer.blocks)
        and not exists (
            select from indexer.blocks as p
            where p.number = b.number - 1 and p.hash = b.parent_hash)""",
    "a log of no transaction": """
        select block_number from indexer.logs as l
        where not exists (
            select from indexer.transactions as t
            where t.block_number = l.block_number
            and t.transaction_index = l.transaction_index
            and t.hash = l.transaction_hash)""",
    "a receipt of no transaction": """
        select block_number from indexer.receipts as r
        where not exists (
            select from indexer.transactions as t
            where t.block_number = r.block_number
            and t.transaction_index = r.transaction_index
            and t.hash = r.transaction_hash)""",
    "a transaction of no block": """
        select block_number from indexer.transactions as t
        where not exists (
            select from indexer.blocks as b where b.number = t.block_number)""",
    "a job for a block that is gone": """
        select id from indexer.jobs as j
        where j.payload ? 'hash' and not exists (
            select from indexer.blocks as b
            where b.number = (j.payload ->> 'height')::bigint
            and j.payload ->> 'hash' = '0x' || encode(b.hash, 'hex'))""",
}
_LOOK = " union all ".join(
    f"select '{what}', torn.* from ({query}) as torn (at)"
    for what, query in _TORN.items()
)


class Reader(threading.Thread):
    """Looks for what must never be seen, as fast as it can."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._done = threading.Event()
        self.looks = 0
        self.torn: list[Any] = []

    def run(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as conn:
            while not self._done.is_set():
                self.torn += conn.execute(_LOOK.encode()).fetchall()
                self.looks += 1

    def __enter__(self) -> Reader:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self.join()
        assert self.torn == []
        assert self.looks > 0


class Following:
    """A follower that runs in a task of its own, and what can be asked about it."""

    def __init__(self, database: Database, follower: Follower) -> None:
        self.database = database
        self.follower = follower
        self.task = asyncio.create_task(follower.run())

    async def rows(self, statement: str, *parameters: object) -> list[Any]:
        async with self.database.connection() as conn:
            cursor = await conn.execute(statement.encode(), parameters or None)
            return await cursor.fetchall() if cursor.description else []

    async def value(self, statement: str, *parameters: object) -> Any:
        [row] = await self.rows(statement, *parameters)
        return row[0]

    async def reorgs(self) -> list[Any]:
        """Return fork, depth, old and new tip of each reorganisation."""
        return await self.rows(
            "select fork_number, depth, old_tip_hash, new_tip_hash "
            "from indexer.reorgs order by id"
        )

    async def until(self, condition: Callable[[], Awaitable[object]]) -> None:
        """Wait for a state; fail where it never comes or the follower ends."""
        end = monotonic() + _PATIENCE_SECONDS
        while not await condition():
            assert monotonic() < end, self.follower.complaint() or "it never came"
            if self.task.done():
                self.task.result()
                raise AssertionError("the follower ended")
            await asyncio.sleep(0.01)

    async def until_tip(self, url: str) -> None:
        """Wait until the stored tip is a node's, and nothing is left to run."""
        await self.until_block(url)

        async def idle() -> bool:
            # What met a block that the node had replaced waits for its retry.
            await self.rows(
                "update indexer.jobs set run_at = now() "
                "where status = 'pending' and run_at > now()"
            )
            return not await self.rows("select id from indexer.jobs limit 1")

        await self.until(idle)

    async def until_block(self, url: str) -> None:
        """Wait until the stored tip is a node's."""

        async def reached() -> bool:
            [head] = await asyncio.to_thread(
                ask, url, [("eth_getBlockByNumber", ["latest", False])]
            )
            tip = await self.rows(
                "select number, hash from indexer.blocks order by number desc limit 1"
            )
            return head is not None and tip == [
                (int(head["number"], 16), bytes.fromhex(head["hash"][2:]))
            ]

        await self.until(reached)

    async def until_final(self, number: int) -> None:
        """Wait until the stored chain was seen final up to a height."""

        async def noted() -> bool:
            final = await self.value("select final_number from indexer.chain")
            return final is not None and bool(final >= number)

        await self.until(noted)

    async def until_asked(self, node: Devnode, requests: int) -> None:
        """Wait until a node has been sent so many more requests, and answered."""
        seen = node.counters.requests

        async def asked() -> bool:
            return node.counters.requests >= seen + requests

        await self.until(asked)

    async def follower_stopped(self) -> None:
        """Stop the follower and wait for its end."""
        self.follower.request_stop()
        await self.task


@asynccontextmanager
async def following(
    database_url: str,
    *urls: str,
    start: int | None = None,
    lease: timedelta = timedelta(seconds=15),
    finality_depth: int | None = None,
    works: bool = True,
) -> AsyncIterator[Following]:
    """Run a follower, and a worker unless told otherwise, until the block ends."""
    config = load_config(
        database_url=database_url, rpc_url=urls, poll_interval="1s", concurrency=2
    )
    async with AsyncExitStack() as stack:
        database, own = [
            await stack.enter_async_context(
                Database(
                    database_url, schema="indexer", size=10, application=application
                )
            )
            for application in ("indexer tests", "indexer follow")
        ]
        async with database.connection() as conn:
            await ensure_history(conn)
        endpoints = await stack.enter_async_context(Endpoints.from_urls(urls))
        if works:
            worker = await make_worker(config, database, endpoints)
            working = asyncio.create_task(worker.run())
            stack.push_async_callback(asyncio.wait_for, working, 30)
            stack.callback(worker.request_stop)
        follower = await make_follower(
            own,
            endpoints,
            lease=lease,
            start=start,
            finality_depth=finality_depth,
        )
        it = Following(database, follower)
        try:
            yield it
        finally:
            follower.request_stop()
            await asyncio.wait([it.task])
