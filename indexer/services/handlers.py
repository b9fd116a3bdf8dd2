"""What the kinds of jobs do: where the queue, the chain and the tables meet.

Each loads some chunks ahead of the one that is written, and commits a chunk's rows
together with the fence on its claim and how far it came, so a job that is taken over
goes on behind the last committed chunk.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from indexer.chain.endpoints import Endpoints
from indexer.chain.gate import urgent
from indexer.db.connection import Connection, Database
from indexer.errors import InconsistentResponse
from indexer.jobs import backlog
from indexer.jobs.execution import Execution
from indexer.jobs.worker import Handler
from indexer.ranges import BlockRange, gaps, runs
from indexer.rows import BlockRef
from indexer.services.chunks import ByteBudget, ChunkSizer
from indexer.services.finality import Finality
from indexer.services.getting import Getter
from indexer.services.kinds import (
    INDEX_BLOCKS,
    INDEX_EVENTS,
    TIP_PRIORITY,
    range_payload,
    read_events_target,
    read_range,
)
from indexer.services.prefetch import Loaded, in_order
from indexer.services.proofs import Prover
from indexer.services.writing import WRITERS, Parts, Writer
from indexer.store import blocks as stored
from indexer.store.encoded import (
    EncodedBlocks,
    EncodedEvents,
    encode_blocks,
    encode_events,
)
from indexer.store.partitions import ensure_partitions

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
        self._finality = finality
        self._getter = Getter(endpoints, prover)
        self._block_chunks = ChunkSizer(chunk_blocks)
        self._event_chunks = ChunkSizer(chunk_blocks)
        self._turns = asyncio.Semaphore(WRITERS)
        self.budget = ByteBudget(_BYTES_IN_FLIGHT)

    def handlers(self) -> dict[str, Handler]:
        """Return the handler of each kind."""
        return {INDEX_BLOCKS: self.index_blocks, INDEX_EVENTS: self.index_events}

    async def index_blocks(self, execution: Execution) -> None:
        """Store the blocks of a range, then enqueue its ``index_events``."""
        whole = read_range(execution.job.payload)
        async with self._database.connection() as conn:
            await ensure_partitions(conn, whole)
        writer = Writer(
            execution, whole, self._block_chunks, stored.range_is_empty, self._turns
        )
        chunks = in_order(
            writer.left,
            self._load_blocks,
            sizer=self._block_chunks,
            budget=self.budget,
        )
        async with aclosing(chunks):
            async for chunk in chunks:
                await self._write_blocks(writer, chunk)

    async def _load_blocks(self, chunk: BlockRange) -> Loaded[Parts[EncodedBlocks]]:
        got = await self._getter.blocks(chunk.heights())
        ready = [(await encode_blocks(data), proven) for data, proven in got.pieces]
        return Loaded(chunk, Parts(ready, got.failed), got.raw_bytes)

    async def _write_blocks(
        self, writer: Writer, chunk: Loaded[Parts[EncodedBlocks]]
    ) -> None:
        job = writer.execution.job

        async def write(conn: Connection, fresh: bool) -> None:
            for data, certainty in chunk.data.pieces:
                await stored.write_blocks(
                    conn, data=data, fresh=fresh, certainty=certainty
                )
            if writer.is_last(chunk.blocks):
                await backlog.enqueue(
                    conn,
                    kind=INDEX_EVENTS,
                    payloads=[range_payload(each) for each in writer.isolation.rest],
                    priority=job.priority,
                )

        error = await writer.commit(chunk, write)
        if error is not None:
            parts = writer.around(chunk.blocks, error, self._load_blocks)
            async for part in parts:
                await self._write_blocks(writer, part)

    async def index_events(self, execution: Execution) -> None:
        """Store the receipts and logs of stored blocks, those of the tip first.

        A job pinned to a block that is not stored any more ends quietly: its block
        was replaced, and the successor has a job of its own.
        """
        with urgent(execution.job.priority == TIP_PRIORITY):
            await self._index_events(execution)

    async def _index_events(self, execution: Execution) -> None:
        target = read_events_target(execution.job.payload)
        if target.hash is not None and not await self._is_stored(
            target.blocks.first, target.hash
        ):
            async with execution.finish(result={"obsolete": True}):
                return
        writer = Writer(
            execution,
            target.blocks,
            self._event_chunks,
            stored.events_are_empty,
            self._turns,
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

    async def _load_events(self, chunk: BlockRange) -> Loaded[Parts[EncodedEvents]]:
        got = await self._getter.events(await self._refs(chunk))
        ready = [(await encode_events(data), proven) for data, proven in got.pieces]
        return Loaded(chunk, Parts(ready, got.failed), got.raw_bytes)

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
        self, writer: Writer, chunk: Loaded[Parts[EncodedEvents]]
    ) -> None:
        final = await self._finality.is_final(chunk.blocks.last)

        async def write(conn: Connection, fresh: bool) -> None:
            for data, certainty in chunk.data.pieces:
                await stored.write_events(
                    conn, data=data, fresh=fresh, final=final, certainty=certainty
                )

        error = await writer.commit(chunk, write)
        if error is not None:
            parts = writer.around(chunk.blocks, error, self._load_events)
            async for part in parts:
                await self._write_events(writer, part)
