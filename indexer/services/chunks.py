"""How many blocks to fetch and write at a time, and how many bytes to hold.

Sized by bytes and by time, not by blocks: a chunk of dense blocks and one of empty
blocks should take about the same memory and the same time in the database.
"""

from __future__ import annotations

import asyncio
from collections import deque

# Of JSON, which is about what its rows and their COPY data take together. PostgreSQL
# spends a quarter more on each row at half of this, and little less at ten times.
_TARGET_BYTES = 6 * 1024 * 1024
# Below this a transaction is round trips, which fewer blocks do not shorten: chunks
# that shrink further on a busy machine only make it busier.
_SMALLEST_BYTES = _TARGET_BYTES // 16
# Of a transaction, from its begin to its commit: none may outlive 2 s, and a
# checkpoint or another writer can make the next one twice as slow.
_LONG_SECONDS = 1.0
_SHORT_SECONDS = 0.5
_FIRST = 10
_LARGEST = 4_000
# A dense stretch after a sparse one must not meet a chunk sized for the sparse one
# that is too far off: growth is bounded, shrinking is not.
_GROWTH = 4
# A first guess, before any block was seen: more than a dense block has, for what many
# jobs load at once on too low a guess is in memory before it is known.
_BYTES_A_BLOCK = 1_000_000


class ChunkSizer:
    """Learns blocks a chunk from the bytes and seconds that chunks took."""

    def __init__(self, fixed: int | None = None) -> None:
        """``fixed`` is ``--chunk-blocks``: then nothing is learned."""
        self._fixed = fixed
        self._size = fixed if fixed is not None else _FIRST
        self._bytes_a_block = float(_BYTES_A_BLOCK)
        self._by_time = _LARGEST

    @property
    def size(self) -> int:
        """How many blocks the next chunk should have; at least one."""
        return self._size

    def expected_bytes(self, blocks: int) -> int:
        """Return how many bytes of JSON so many blocks will probably have."""
        return int(self._bytes_a_block * blocks)

    def learn(self, blocks: int, raw_bytes: int) -> None:
        """Take in how many bytes of JSON a chunk of blocks had."""
        if blocks < 1:
            return
        self._bytes_a_block = max(1.0, raw_bytes / blocks)
        self._fit(int(_TARGET_BYTES / self._bytes_a_block))

    def learn_seconds(self, blocks: int, seconds: float) -> None:
        """Take in how long the transaction of a chunk of blocks was open."""
        if seconds > _LONG_SECONDS:
            smallest = int(_SMALLEST_BYTES / self._bytes_a_block)
            self._by_time = max(1, smallest, min(self._by_time, blocks // 2))
            self._fit(self._size)
        elif seconds < _SHORT_SECONDS:
            self._by_time = min(_LARGEST, self._by_time * 2)

    def too_large(self, blocks: int) -> None:
        """Take in that a chunk of blocks was more than a node or we can take.

        Even where the size is fixed: asking the same again would never end.
        """
        self._size = max(1, min(self._size, blocks // 2))

    def _fit(self, fitting: int) -> None:
        if self._fixed is None:
            grown = self._size * _GROWTH
            self._size = max(1, min(fitting, grown, self._by_time, _LARGEST))


class ByteBudget:
    """Bounds what a process holds of chunks, in bytes of their JSON (P1).

    Served in order of asking. More than the whole budget is lent to one that is
    alone, so that a block of any size gets through.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.used = 0

    async def take(self, size: int) -> Held:
        """Wait until so many bytes may be held; they are until they are released."""
        return Held(self, await self._take(size))

    async def _take(self, size: int) -> int:
        if not self._waiting and self._fits(size):
            self.used += size
            return size
        turn = asyncio.get_running_loop().create_future()
        entry = (size, turn)
        self._waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(size)
            else:
                self._waiting.remove(entry)
                self._serve()
            raise
        return size

    def _fits(self, size: int) -> bool:
        return self.used == 0 or self.used + size <= self._limit

    def give(self, size: int) -> None:
        """Take back what was held."""
        self.used -= size
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            self.used += size
            turn.set_result(None)

    def resize(self, before: int, after: int) -> None:
        """Count what is held as what it turned out to be; never waits."""
        self.used += after - before
        if after < before:
            self._serve()


class Held:
    """Some bytes of a budget."""

    def __init__(self, budget: ByteBudget, size: int) -> None:
        self._budget = budget
        self._size = size

    def is_really(self, size: int) -> None:
        """Correct the guess to what it turned out to be."""
        self._budget.resize(self._size, size)
        self._size = size

    def release(self) -> None:
        """Give everything back; idempotent."""
        size, self._size = self._size, 0
        self._budget.give(size)
