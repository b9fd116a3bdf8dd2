"""Commit the chunks of a job, each with the fence on its claim and how far it came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from time import monotonic
from typing import Final, Generic, NamedTuple, TypeVar

from indexer.chain.gate import is_urgent
from indexer.chain.observer import begin_tally
from indexer.db.connection import Connection
from indexer.errors import ChainDataError, IndexerError
from indexer.jobs.execution import Execution
from indexer.ranges import BlockRange
from indexer.services.chunks import ChunkSizer
from indexer.services.isolation import Isolation
from indexer.services.prefetch import Load, Loaded
from indexer.store.copy import RangeNotFresh
from indexer.store.coverage import Certainty
from indexer.store.encoded import EncodedBlocks, EncodedEvents

E = TypeVar("E", EncodedBlocks, EncodedEvents)


# Transactions of chunks that a process has open at once. More of them only take the
# processor from each other and from whoever decodes: two keep PostgreSQL busy, and a
# third is there while one waits for its commit.
WRITERS: Final = 3


class Parts(NamedTuple, Generic[E]):
    """What there is of a chunk, in consecutive pieces, and why the rest is not."""

    pieces: list[tuple[E, Certainty]]
    failed: Mapping[int, IndexerError]


class Writer:
    """Commits the chunks of one job under its token, the last with the completion.

    To be made by the job's own task, whose requests it counts for the job's record.
    """

    def __init__(
        self,
        execution: Execution,
        whole: BlockRange,
        sizer: ChunkSizer,
        is_fresh: Callable[[Connection, BlockRange], Awaitable[bool]],
        turns: asyncio.Semaphore,
    ) -> None:
        self.execution = execution
        self.left = BlockRange(_resume_at(execution, whole), whole.last)
        self.isolation = Isolation(execution.job, whole)
        self._is_alone = len(whole) == 1
        self._sizer = sizer
        self._is_fresh = is_fresh
        self._turns = turns
        self._rows = 0
        self._asked = begin_tally()

    def is_last(self, chunk: BlockRange) -> bool:
        """Tell whether the job is done with this chunk."""
        return chunk.last == self.left.last

    async def commit(
        self,
        chunk: Loaded[Parts[E]],
        write: Callable[[Connection, bool], Awaitable[None]],
    ) -> ChainDataError | None:
        """Write a chunk; whether its range is fresh is looked at and then believed.

        Returns what of the chunk contradicts the tables, and then nothing of it is
        written: see :meth:`around`. Raises that where the job has no other block.
        """
        self.isolation.cut_out(chunk.data.failed)
        for may_be_fresh in (True, False):
            try:
                await self._write(chunk, write, may_be_fresh=may_be_fresh)
            except RangeNotFresh:
                # Another writer came between the look and the COPY.
                continue
            except ChainDataError as error:
                if self._is_alone:
                    raise
                return error
            break
        return None

    async def _write(
        self,
        chunk: Loaded[Parts[E]],
        write: Callable[[Connection, bool], Awaitable[None]],
        *,
        may_be_fresh: bool,
    ) -> None:
        rows = self._rows + sum(data.rows for data, _ in chunk.data.pieces)
        progress: dict[str, object] = {"next": chunk.blocks.last + 1}
        if self.isolation.cut:
            progress["cut"] = self.isolation.cut
        transaction = (
            self.execution.finish(
                result={**progress, "rows": rows, "calls": self._asked.requests}
            )
            if self.is_last(chunk.blocks)
            else self.execution.chunk(progress=progress)
        )
        async with AsyncExitStack() as stack:
            if not is_urgent():
                await stack.enter_async_context(self._turns)
            began = monotonic()
            conn = await stack.enter_async_context(transaction)
            fresh = may_be_fresh and await self._is_fresh(conn, chunk.blocks)
            await write(conn, fresh)
            await self.isolation.enqueue(conn, chunk.data.failed)
        self._sizer.learn_seconds(len(chunk.blocks), monotonic() - began)
        self._rows = rows

    async def around(
        self, chunk: BlockRange, error: ChainDataError, load: Load[Parts[E]]
    ) -> AsyncIterator[Loaded[Parts[E]]]:
        """Yield a chunk anew, in parts around what contradicts the tables."""
        if len(chunk) == 1:
            yield Loaded(chunk, Parts([], {chunk.first: error}), 0)
            return
        for part in _cut_at(chunk, getattr(error, "block_number", None)):
            yield await load(part)


def _cut_at(chunk: BlockRange, number: int | None) -> Iterator[BlockRange]:
    """Cut a chunk around one of its blocks, or in halves."""
    if number is None or not chunk.first <= number <= chunk.last:
        middle = (chunk.first + chunk.last) // 2
        yield BlockRange(chunk.first, middle)
        yield BlockRange(middle + 1, chunk.last)
        return
    if chunk.first < number:
        yield BlockRange(chunk.first, number - 1)
    yield BlockRange(number, number)
    if number < chunk.last:
        yield BlockRange(number + 1, chunk.last)


def _resume_at(execution: Execution, whole: BlockRange) -> int:
    progress = execution.job.progress or {}
    behind = progress.get("next", whole.first)
    return behind if whole.first <= behind <= whole.last else whole.first
