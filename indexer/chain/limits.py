"""What an endpoint can take: batch sizes, rates, and when to leave it alone.

Nothing here does I/O; clocks are passed in, so tests need not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from indexer.backoff import delay_seconds

Clock = Callable[[], float]

# Providers' limits for batches run from 3 to 1,000 requests; devnodes take more.
FIRST_BATCH: Final = 20
LARGEST_BATCH: Final = 500
# So that a batch of dense blocks (640 KB each) stays well under proxies' limits and
# a time-out, while one of empty blocks (1.6 KB) is as large as its count allows.
BATCH_BYTES: Final = 8 * 1024 * 1024


class BatchSize:
    """How many requests go into a batch: additive growth, multiplicative shrink.

    Until the first refusal it doubles, as nothing is known yet.
    """

    def __init__(self, first: int = FIRST_BATCH, largest: int = LARGEST_BATCH) -> None:
        self._size = min(first, largest)
        self._largest = largest
        self._refused = False
        self._bytes: dict[str, float] = {}

    def size(self, method: str) -> int:
        """Return how many requests of a method to send at once."""
        each = self._bytes.get(method, 0.0)
        by_bytes = int(BATCH_BYTES / each) if each else self._size
        return max(1, min(self._size, by_bytes))

    def fitted(self, method: str, requests: int, received: int) -> None:
        """Learn from a batch that was answered with ``received`` bytes."""
        each = received / requests
        known = self._bytes.get(method, each)
        # Up at once, down slowly: density comes in stretches of a chain.
        self._bytes[method] = max(each, 0.8 * known + 0.2 * each)
        if requests >= self._size:
            grown = self._size + 1 if self._refused else self._size * 2
            self._size = min(self._largest, grown)

    def refused(self, requests: int) -> None:
        """Learn from a batch that was too big."""
        self._refused = True
        self._size = max(1, min(self._size, requests // 2))


class Pace:
    """Spread requests so that no more than ``per_second`` are sent."""

    def __init__(self, per_second: float | None, clock: Clock) -> None:
        self._per_second = per_second
        self._clock = clock
        self._free_at = clock()

    def wait_seconds(self, requests: int) -> float:
        """Book a time for some requests; returns how long to wait until then."""
        if not self._per_second:
            return 0.0
        now = self._clock()
        start = max(now, self._free_at)
        self._free_at = start + requests / self._per_second
        return start - now


class Breaker:
    """Leaves an endpoint alone for a while after it failed."""

    # Half a second passes in a hiccup of a load balancer; half a minute is soon
    # enough to notice that a node is back.
    _BASE_SECONDS: Final = 0.5
    _CAP_SECONDS: Final = 30.0

    def __init__(self, clock: Clock, random: Random | None = None) -> None:
        self._clock = clock
        self._random = random
        self._failures = 0
        self._failed_at = float("-inf")
        self._closed_at = float("-inf")

    def wait_seconds(self) -> float:
        """Return how long the endpoint is still to be left alone."""
        return max(0.0, self._closed_at - self._clock())

    def succeeded(self) -> None:
        """Take note that the endpoint answers."""
        self._failures = 0
        self._closed_at = float("-inf")

    def failed(self, sent_at: float, *, at_least: float | None = None) -> None:
        """Take note of a failure of a request that was sent at ``sent_at``.

        ``at_least`` is the time the endpoint asked for, in seconds. Requests that
        were on their way together are one failure.
        """
        if sent_at <= self._failed_at:
            return
        now = self._failed_at = self._clock()
        delay = delay_seconds(
            self._failures,
            base=self._BASE_SECONDS,
            cap=self._CAP_SECONDS,
            random=self._random,
        )
        self._failures += 1
        # Never earlier than asked for: jitter only adds.
        self._closed_at = now + delay + (at_least or 0.0)
