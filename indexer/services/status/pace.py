"""Rates from what was stored between two looks."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

# Long enough to even out chunks, short enough to show that workers were added.
WINDOW_SECONDS = 120.0
# Two looks closer than this say more about chunks than about the pace.
_SHORTEST_SECONDS = 1.0


class Rates(NamedTuple):
    """Heights a second, and over how many seconds that was seen."""

    blocks: float
    events: float
    seconds: float


class Pace:
    """Remembers how much was stored at each look of the last minutes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int, int]] = deque()

    def look(self, *, blocks: int, events: int) -> Rates | None:
        """Note what is stored now; return the rates, None before there are two looks.

        Blocks that a reorganisation or ``forget`` took away count as no progress.
        """
        now = self._clock()
        self._seen.append((now, blocks, events))
        while len(self._seen) > 2 and self._seen[1][0] < now - WINDOW_SECONDS:
            self._seen.popleft()
        at, blocks_before, events_before = self._seen[0]
        seconds = now - at
        if seconds < _SHORTEST_SECONDS:
            return None
        return Rates(
            blocks=max(0.0, (blocks - blocks_before) / seconds),
            events=max(0.0, (events - events_before) / seconds),
            seconds=seconds,
        )
