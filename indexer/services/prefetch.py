"""Load the chunks of a range in order, some ahead of whoever writes them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from indexer.errors import RangeTooLarge
from indexer.ranges import BlockRange
from indexer.services.chunks import ByteBudget, ChunkSizer, Held

T = TypeVar("T")

# Chunks under way to one job, the one that is being written among them. Two hide the
# latency of a node that is near; a third also hides what its answers vary by.
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Loaded(Generic[T]):
    """A chunk that is ready to be written, and how much of JSON it was."""

    blocks: BlockRange
    data: T
    raw_bytes: int


# Fetches a chunk and makes it ready to be written.
Load = Callable[[BlockRange], Awaitable[Loaded[T]]]


async def in_order(
    left: BlockRange, load: Load[T], *, sizer: ChunkSizer, budget: ByteBudget
) -> AsyncGenerator[Loaded[T], None]:
    """Yield the chunks of a range, loading the next ones while one is worked on.

    What is under way is held in ``budget`` until the caller asks for the next. A
    chunk that is too large is cut, and what was ahead of it begun anew.
    """
    under_way: deque[tuple[BlockRange, asyncio.Task[tuple[Held, Loaded[T]]]]] = deque()
    first = left.first
    try:
        while first <= left.last or under_way:
            while first <= left.last and len(under_way) < _DEPTH:
                chunk = BlockRange(first, min(left.last, first + sizer.size - 1))
                task = asyncio.create_task(_hold(chunk, load, sizer, budget))
                under_way.append((chunk, task))
                first = chunk.last + 1
            chunk, task = under_way[0]
            try:
                held, loaded = await task
                under_way.popleft()
                try:
                    yield loaded
                finally:
                    held.release()
            except RangeTooLarge:
                if len(chunk) == 1:
                    raise
                sizer.too_large(len(chunk))
                first = chunk.first
                await _abandon(under_way)
    finally:
        await _abandon(under_way)


async def _hold(
    chunk: BlockRange, load: Load[T], sizer: ChunkSizer, budget: ByteBudget
) -> tuple[Held, Loaded[T]]:
    held = await budget.take(sizer.expected_bytes(len(chunk)))
    try:
        loaded = await load(chunk)
    except BaseException:
        held.release()
        raise
    sizer.learn(len(chunk), loaded.raw_bytes)
    held.is_really(loaded.raw_bytes)
    return held, loaded


async def _abandon(
    under_way: deque[tuple[BlockRange, asyncio.Task[tuple[Held, Loaded[T]]]]],
) -> None:
    tasks = [task for _, task in under_way]
    under_way.clear()
    for task in tasks:
        task.cancel()
    for found in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(found, BaseException):
            found[0].release()
