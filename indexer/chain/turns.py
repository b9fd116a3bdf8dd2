"""Work of the processor in slices, one a round of the event loop.

Ten jobs that decode and prove a thousand blocks each would hold the loop for seconds
between two awaits of whoever stores the tip, the heartbeat's replies included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from msgspec import Raw

from indexer.chain.gate import is_urgent

# Of JSON: some milliseconds of decoding and proving, a hundred sparse blocks.
SLICE_BYTES: Final = 256 * 1024

_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def turn() -> None:
    """Wait until no other slice has been done in this round of the loop.

    What is urgent does not wait.
    """
    if is_urgent():
        return
    lock = _locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    async with lock:
        await asyncio.sleep(0)


def slices(replies: Sequence[Raw | object]) -> Iterator[slice]:
    """Cut replies into pieces that are quickly worked on, each at least one long."""
    start = size = 0
    for at, reply in enumerate(replies):
        if size >= SLICE_BYTES:
            yield slice(start, at)
            start, size = at, 0
        if isinstance(reply, Raw):
            size += memoryview(reply).nbytes
    if start < len(replies):
        yield slice(start, len(replies))
