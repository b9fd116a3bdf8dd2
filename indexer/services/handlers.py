"""What the kinds of jobs do: where the queue, the chain and the tables meet.

Each fetches a chunk while the one before is written, and commits a chunk's rows
together with the fence on its claim and how far it came, so a job that is taken over
goes on behind the last committed chunk.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from indexer.chain.endpoints import Endpoint, Endpoints
from indexer.chain.fetch import fetch_blocks, fetch_events
from indexer.chain.tip import head_number
from indexer.db.connection import Connection, Database
from indexer.errors import InconsistentResponse, NotYetAvailable, RpcUnavailable
from indexer.jobs import backlog
from indexer.jobs.execution import Execution
from indexer.jobs.worker import Handler
from indexer.ranges import BlockRange, gaps, runs
from indexer.rows import BlockData, BlockEvents, BlockRef
from indexer.services.chunks import ChunkSizer
from indexer.services.finality import Finality
from indexer.services.kinds import (
    INDEX_BLOCKS,
    INDEX_EVENTS,
    read_events_target,
    read_range,
)
from indexer.store import blocks as stored
from indexer.store.copy import RangeNotFresh
from indexer.store.partitions import ensure_partitions

_Fetched = TypeVar("_Fetched", list[BlockData], list[BlockEvents])


class Indexing:
    """The handlers of both kinds, with what they share in a process."""

    def __init__(
        self,
        database: Database,
        endpoints: Endpoints,
        finality: Finality,
        *,
        chunk_blocks: int | None = None,
    ) -> None:
        self._database = database
        self._endpoints = endpoints
        self._finality = finality
        self._block_chunks = ChunkSizer(chunk_blocks)
        self._event_chunks = ChunkSizer(chunk_blocks)

    def handlers(self) -> dict[str, Handler]:
        """Return the handler of each kind."""
        return {INDEX_BLOCKS: self.index_blocks, INDEX_EVENTS: self.index_events}

    async def index_blocks(self, execution: Execution) -> None:
        """Store the blocks of a range, then enqueue its ``index_events``."""
        whole = read_range(execution.job.payload)
        async with self._database.connection() as conn:
            await ensure_partitions(conn, whole)
        left = BlockRange(_resume_at(execution, whole), whole.last)
        chunks = _ahead(self._fetch_block_chunks(left))
        async with aclosing(chunks):
            async for data in chunks:
                await self._write_blocks(execution, whole, data)

    async def _fetch_block_chunks(
        self, left: BlockRange
    ) -> AsyncGenerator[list[BlockData], None]:
        first = left.first
        while first <= left.last:
            last = min(left.last, first + self._block_chunks.size - 1)
            data = await self._fetch(
                partial(fetch_blocks, heights=range(first, last + 1))
            )
            self._block_chunks.learn(len(data), sum(each.raw_bytes for each in data))
            yield data
            first = last + 1

    async def _write_blocks(
        self, execution: Execution, whole: BlockRange, data: list[BlockData]
    ) -> None:
        chunk = BlockRange(data[0].block.number, data[-1].block.number)
        is_last = chunk.last == whole.last

        async def write(conn: Connection, fresh: bool) -> None:
            await stored.write_blocks(conn, data=data, fresh=fresh)
            if is_last:
                await backlog.enqueue(
                    conn,
                    kind=INDEX_EVENTS,
                    payloads=[dict(execution.job.payload)],
                    priority=execution.job.priority,
                )

        await self._commit(
            execution, chunk, is_last, write, is_fresh=stored.range_is_empty
        )

    async def index_events(self, execution: Execution) -> None:
        """Store the receipts and logs of stored blocks.

        A job pinned to a block that is not stored any more ends quietly: its block
        was replaced, and the successor has a job of its own.
        """
        target = read_events_target(execution.job.payload)
        if target.hash is not None and not await self._is_stored(
            target.blocks.first, target.hash
        ):
            async with execution.finish(result={"obsolete": True}):
                return
        whole = target.blocks
        left = BlockRange(_resume_at(execution, whole), whole.last)
        chunks = _ahead(self._fetch_event_chunks(left))
        async with aclosing(chunks):
            async for events in chunks:
                await self._write_events(execution, whole, events)

    async def _is_stored(self, number: int, block_hash: bytes) -> bool:
        async with self._database.connection() as conn:
            return await stored.block_hash(conn, number) == block_hash

    async def _fetch_event_chunks(
        self, left: BlockRange
    ) -> AsyncGenerator[list[BlockEvents], None]:
        first = left.first
        while first <= left.last:
            last = min(left.last, first + self._event_chunks.size - 1)
            refs = await self._refs(BlockRange(first, last))
            events = await self._fetch(partial(fetch_events, refs=refs))
            self._event_chunks.learn(
                len(events), sum(each.raw_bytes for each in events)
            )
            yield events
            first = last + 1

    async def _refs(self, chunk: BlockRange) -> list[BlockRef]:
        around = BlockRange(max(0, chunk.first - 1), chunk.last + 1)
        async with self._database.connection() as conn:
            # One more on either side, so that the links to the neighbours are looked
            # at again: two jobs that wrote both sides of a border at the same moment
            # could not see each other's blocks.
            refs = await stored.block_refs(conn, around)
        refs = [ref for ref in refs if chunk.first <= ref.number <= chunk.last]
        absent = gaps(runs(ref.number for ref in refs), chunk)
        if absent:
            raise InconsistentResponse(
                f"blocks {absent[0]} are not stored, so there is nothing to hang their "
                f"receipts on; run `indexer plan --from {absent[0].first} --to "
                f"{absent[0].last + 1}`",
                block_number=absent[0].first,
            )
        return refs

    async def _write_events(
        self, execution: Execution, whole: BlockRange, events: list[BlockEvents]
    ) -> None:
        chunk = BlockRange(events[0].number, events[-1].number)
        final = await self._finality.is_final(chunk.last)

        async def write(conn: Connection, fresh: bool) -> None:
            await stored.write_events(conn, data=events, fresh=fresh, final=final)

        await self._commit(
            execution,
            chunk,
            chunk.last == whole.last,
            write,
            is_fresh=stored.events_are_empty,
        )

    async def _commit(
        self,
        execution: Execution,
        chunk: BlockRange,
        is_last: bool,
        write: Callable[[Connection, bool], Awaitable[None]],
        *,
        is_fresh: Callable[[Connection, BlockRange], Awaitable[bool]],
    ) -> None:
        """Commit a chunk under the job's token, the last one with the completion."""
        progress: dict[str, object] = {"next": chunk.last + 1}
        for may_be_fresh in (True, False):
            transaction = (
                execution.finish(result=progress)
                if is_last
                else execution.chunk(progress=progress)
            )
            try:
                async with transaction as conn:
                    fresh = may_be_fresh and await is_fresh(conn, chunk)
                    await write(conn, fresh)
                return
            except RangeNotFresh:
                # Another writer came between the look and the COPY.
                continue

    async def _fetch(
        self, fetch: Callable[[Endpoint], Awaitable[_Fetched]]
    ) -> _Fetched:
        try:
            return await self._endpoints.run(fetch)
        except NotYetAvailable as error:
            await self._raise_if_only_late(error)
            raise

    async def _raise_if_only_late(self, error: NotYetAvailable) -> None:
        """A null above the node's own head is no fault of the block's (C4)."""
        number = error.block_number
        head = await head_number(self._endpoints)
        if number is not None and number > head:
            raise RpcUnavailable(
                f"block {number} is above the node's head, which is at {head}; the "
                "job waits for it"
            ) from error


def _resume_at(execution: Execution, whole: BlockRange) -> int:
    progress = execution.job.progress or {}
    behind = progress.get("next", whole.first)
    return behind if whole.first <= behind <= whole.last else whole.first


async def _ahead(
    source: AsyncGenerator[_Fetched, None],
) -> AsyncGenerator[_Fetched, None]:
    """Fetch the next chunk while the caller works on the one before."""

    async def following() -> _Fetched | None:
        return await anext(source, None)

    task = asyncio.ensure_future(following())
    try:
        while (item := await task) is not None:
            task = asyncio.ensure_future(following())
            yield item
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
