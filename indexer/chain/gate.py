"""The way to an endpoint: one line, in which the tip stands before the backfill."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from itertools import count
from typing import Final

from indexer.chain.limits import InFlight
from indexer.chain.pace import Pace

_URGENT: Final = ContextVar("urgent", default=False)


@contextmanager
def urgent(is_urgent: bool = True) -> Iterator[None]:
    """Let what is asked in the body, and in tasks begun there, go before the rest."""
    token = _URGENT.set(is_urgent)
    try:
        yield
    finally:
        _URGENT.reset(token)


def is_urgent() -> bool:
    """Tell whether this task is to go before the rest."""
    return _URGENT.get()


class Gate:
    """Lets requests through one after the other, as pace and room allow."""

    def __init__(self, pace: Pace, in_flight: InFlight) -> None:
        self._pace = pace
        self._in_flight = in_flight
        self._turns = count()
        # Each with its own event: waking all of a long line for each that leaves it
        # was most of a backfill's CPU.
        self._line: list[tuple[bool, int, asyncio.Event]] = []

    @property
    def is_full(self) -> bool:
        """Whether a request would have to wait."""
        return bool(self._line) or not self._in_flight.has_room()

    @asynccontextmanager
    async def passing(self, requests: int) -> AsyncIterator[None]:
        """Wait for one's turn to send a batch of ``requests``; hold a place in it."""
        await self._enter(requests)
        try:
            yield
        finally:
            self._in_flight.ended()
            self._move()

    async def _enter(self, requests: int) -> None:
        is_urgent = _URGENT.get()
        moved = asyncio.Event()
        mine = (not is_urgent, next(self._turns), moved)
        insort(self._line, mine)
        try:
            while True:
                moved.clear()
                wait = None
                if self._line[0] is mine and self._in_flight.has_room(urgent=is_urgent):
                    wait = self._pace.wait_seconds()
                    if not wait:
                        break
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await moved.wait()
            self._pace.book(requests)
            self._in_flight.began()
        finally:
            self._line.remove(mine)
            self._move()

    def _move(self) -> None:
        if self._line:
            self._line[0][2].set()
