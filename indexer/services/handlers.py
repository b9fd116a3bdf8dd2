"""What the kinds of jobs do: where the queue, the chain and the tables meet.

Each loads some chunks ahead of the one that is written, and commits a chunk's rows
together with the fence on its claim and how far it came, so a job that is taken over
goes on behind the last committed chunk.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from time import monotonic
from typing import TypeVar

from indexer.chain.endpoints import Endpoint, Endpoints
from indexer.chain.tip import head_number
from indexer.db.connection import Connection, Database
from indexer.errors import InconsistentResponse, NotYetAvailable, RpcUnavailable
from indexer.jobs import backlog
from indexer.jobs.execution import Execution
from indexer.jobs.worker import Handler
from indexer.ranges import BlockRange, gaps, runs
from indexer.rows import BlockData, BlockEvents, BlockRef
from indexer.services.chunks import ByteBudget, ChunkSizer
from indexer.services.finality import Finality
from indexer.services.kinds import (
    INDEX_BLOCKS,
    INDEX_EVENTS,
    read_events_target,
    read_range,
)
from indexer.services.prefetch import Loaded, in_order
from indexer.services.proofs import Fetched, Prover
from indexer.store import blocks as stored
from indexer.store.copy import RangeNotFresh
from indexer.store.encoded import (
    EncodedBlocks,
    EncodedEvents,
    encode_blocks,
    encode_events,
)
from indexer.store.partitions import ensure_partitions

_Fetched = TypeVar("_Fetched", Fetched[BlockData], Fetched[BlockEvents])

# What a process holds of chunks that are loaded or about to be, in bytes of JSON. A
# chunk being decoded takes three times that for a moment, and one at a time is.
_BYTES_IN_FLIGHT = 48 * 1024 * 1024


class Indexing:
    """The handlers of both kinds, with what they share in a process."""

    def __init__(
        self,
        database: Database,
        endpoints: Endpoints,
        finality: Finality,
        prover: Prover,
        *,
        chunk_blocks: int | None = None,
    ) -> None:
        self._database = database
        self._endpoints = endpoints
        self._finality = finality
        self._prover = prover
        self._block_chunks = ChunkSizer(chunk_blocks)
        self._event_chunks = ChunkSizer(chunk_blocks)
        self.budget = ByteBudget(_BYTES_IN_FLIGHT)

    def handlers(self) -> dict[str, Handler]:
        """Return the handler of each kind."""
        return {INDEX_BLOCKS: self.index_blocks, INDEX_EVENTS: self.index_events}

    async def index_blocks(self, execution: Execution) -> None:
        """Store the blocks of a range, then enqueue its ``index_events``."""
        whole = read_range(execution.job.payload)
        async with self._database.connection() as conn:
            await ensure_partitions(conn, whole)
        writer = _Writer(execution, whole, self._block_chunks, stored.range_is_empty)
        chunks = in_order(
            writer.left,
            self._load_blocks,
            sizer=self._block_chunks,
            budget=self.budget,
        )
        async with aclosing(chunks):
            async for chunk in chunks:
                await self._write_blocks(writer, chunk)

    async def _load_blocks(self, chunk: BlockRange) -> Loaded[EncodedBlocks]:
        data, certainty = await self._fetch(
            partial(self._prover.fetch_blocks, heights=chunk.heights())
        )
        raw_bytes = sum(each.raw_bytes for each in data)
        return Loaded(chunk, await encode_blocks(data), raw_bytes, certainty)

    async def _write_blocks(
        self, writer: _Writer, chunk: Loaded[EncodedBlocks]
    ) -> None:
        job = writer.execution.job

        async def write(conn: Connection, fresh: bool) -> None:
            await stored.write_blocks(
                conn, data=chunk.data, fresh=fresh, certainty=chunk.certainty
            )
            if writer.is_last(chunk.blocks):
                await backlog.enqueue(
                    conn,
                    kind=INDEX_EVENTS,
                    payloads=[dict(job.payload)],
                    priority=job.priority,
                )

        await writer.commit(chunk.blocks, write, rows=chunk.data.rows)

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
        writer = _Writer(
            execution, target.blocks, self._event_chunks, stored.events_are_empty
        )
        if len(target.blocks) == 1:
            # The tip's own: it must not stand in line behind a backfill.
            await self._write_events(writer, await self._load_events(target.blocks))
            return
        chunks = in_order(
            writer.left,
            self._load_events,
            sizer=self._event_chunks,
            budget=self.budget,
        )
        async with aclosing(chunks):
            async for chunk in chunks:
                await self._write_events(writer, chunk)

    async def _is_stored(self, number: int, block_hash: bytes) -> bool:
        async with self._database.connection() as conn:
            return await stored.block_hash(conn, number) == block_hash

    async def _load_events(self, chunk: BlockRange) -> Loaded[EncodedEvents]:
        refs = await self._refs(chunk)
        events, certainty = await self._fetch(
            partial(self._prover.fetch_events, refs=refs)
        )
        raw_bytes = sum(each.raw_bytes for each in events)
        return Loaded(chunk, await encode_events(events), raw_bytes, certainty)

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
        self, writer: _Writer, chunk: Loaded[EncodedEvents]
    ) -> None:
        final = await self._finality.is_final(chunk.blocks.last)

        async def write(conn: Connection, fresh: bool) -> None:
            await stored.write_events(
                conn,
                data=chunk.data,
                fresh=fresh,
                final=final,
                certainty=chunk.certainty,
            )

        await writer.commit(chunk.blocks, write, rows=chunk.data.rows)

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


class _Writer:
    """Commits the chunks of one job under its token, the last with the completion."""

    def __init__(
        self,
        execution: Execution,
        whole: BlockRange,
        sizer: ChunkSizer,
        is_fresh: Callable[[Connection, BlockRange], Awaitable[bool]],
    ) -> None:
        self.execution = execution
        self.left = BlockRange(_resume_at(execution, whole), whole.last)
        self._sizer = sizer
        self._is_fresh = is_fresh
        self._rows = 0

    def is_last(self, chunk: BlockRange) -> bool:
        """Tell whether the job is done with this chunk."""
        return chunk.last == self.left.last

    async def commit(
        self,
        chunk: BlockRange,
        write: Callable[[Connection, bool], Awaitable[None]],
        *,
        rows: int,
    ) -> None:
        """Write a chunk; whether its range is fresh is looked at and then believed."""
        self._rows += rows
        progress: dict[str, object] = {"next": chunk.last + 1}
        for may_be_fresh in (True, False):
            transaction = (
                self.execution.finish(result={**progress, "rows": self._rows})
                if self.is_last(chunk)
                else self.execution.chunk(progress=progress)
            )
            began = monotonic()
            try:
                async with transaction as conn:
                    fresh = may_be_fresh and await self._is_fresh(conn, chunk)
                    await write(conn, fresh)
            except RangeNotFresh:
                # Another writer came between the look and the COPY.
                continue
            self._sizer.learn_seconds(len(chunk), monotonic() - began)
            return


def _resume_at(execution: Execution, whole: BlockRange) -> int:
    progress = execution.job.progress or {}
    behind = progress.get("next", whole.first)
    return behind if whole.first <= behind <= whole.last else whole.first
