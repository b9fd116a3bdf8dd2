"""What an endpoint can take: sizes of batches, and requests in flight.

Nothing here does I/O; clocks are passed in, so tests need not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

Clock = Callable[[], float]

# Providers' limits for batches run from 3 to 1,000 requests; devnodes take more.
FIRST_BATCH: Final = 20
LARGEST_BATCH: Final = 500
# So that a batch of dense blocks (640 KB each) stays well under proxies' limits and
# a time-out, while one of empty blocks (1.6 KB) is as large as its count allows.
BATCH_BYTES: Final = 8 * 1024 * 1024
_SMALLEST_BATCH_BYTES: Final = 64 * 1024
# A size that was refused is not tried again for as long: limits are configuration,
# which changes by the month. Then the ceiling rises by a tenth at a time.
_CEILING_SECONDS: Final = 600.0


class BatchSize:
    """How many requests go into a batch: additive growth, multiplicative shrink.

    It doubles until the first refusal, as nothing is known yet. A size that was
    refused is a ceiling that is only raised after ten minutes, a tenth at a time.
    """

    def __init__(
        self, clock: Clock, first: int = FIRST_BATCH, largest: int = LARGEST_BATCH
    ) -> None:
        self._clock = clock
        self._largest = largest
        self._ceiling = largest
        self._ceiling_at = float("-inf")
        self._size = min(first, largest)
        self._most_fitted = 0
        self._suspected = 0
        self._byte_budget = BATCH_BYTES
        self._bytes: dict[str, float] = {}

    def size(self, method: str) -> int:
        """Return how many requests of a method to send at once."""
        each = self._bytes.get(method, 0.0)
        by_bytes = int(self._byte_budget / each) if each else self._size
        return max(1, min(self._size, by_bytes))

    def fitted(self, method: str, requests: int, received: int) -> None:
        """Learn from a batch that was answered with ``received`` bytes."""
        each = received / requests
        known = self._bytes.get(method, each)
        # Up at once, down slowly: density comes in stretches of a chain.
        self._bytes[method] = max(each, 0.8 * known + 0.2 * each)
        self._most_fitted = max(self._most_fitted, requests)
        if requests >= self._suspected:
            self._suspected = 0
        if requests >= self._size:
            is_bounded = self._ceiling < self._largest
            self._lift_ceiling()
            grown = self._size + 1 if is_bounded else self._size * 2
            self._size = min(self._ceiling, grown)

    def refused(self, method: str, requests: int) -> None:
        """Learn from a batch that the node called too big.

        Where as many requests of another kind fitted it is bytes that were too many.
        """
        each = self._bytes.get(method, 0.0)
        if requests <= self._most_fitted and each:
            half = int(requests * each / 2)
            self._byte_budget = max(_SMALLEST_BATCH_BYTES, min(self._byte_budget, half))
            return
        self._ceiling = max(1, min(self._ceiling, requests - 1))
        self._ceiling_at = self._clock()
        self._size = max(1, min(self._size, requests // 2))

    def suspected_of(self, method: str, requests: int) -> None:
        """Learn from a batch that failed without a reason, while its halves did not.

        Once may be chance; a second time, with nothing as large answered between, it
        is taken for a refusal.
        """
        if self._suspected and requests >= self._suspected:
            self._suspected = 0
            self.refused(method, requests)
        else:
            self._suspected = requests

    def slow(self, requests: int) -> None:
        """Learn from a batch that was not answered in time: begin anew with half."""
        self._size = max(1, min(self._size, requests // 2))

    def learned(self) -> dict[str, int]:
        """Return what is worth remembering of a node."""
        return {
            "batch_size": self._size,
            "batch_ceiling": self._ceiling,
            "batch_bytes": self._byte_budget,
        }

    def restore(self, limits: Mapping[str, object]) -> None:
        """Begin where another process ended; what is not a number counts nothing."""
        ceiling = _whole(limits.get("batch_ceiling"), self._largest)
        if ceiling < self._largest:
            self._ceiling, self._ceiling_at = ceiling, self._clock()
        self._size = min(_whole(limits.get("batch_size"), self._size), self._ceiling)
        self._byte_budget = min(
            BATCH_BYTES,
            max(_SMALLEST_BATCH_BYTES, _whole(limits.get("batch_bytes"), BATCH_BYTES)),
        )

    def _lift_ceiling(self) -> None:
        now = self._clock()
        if self._ceiling < self._largest and now - self._ceiling_at > _CEILING_SECONDS:
            self._ceiling_at = now
            self._ceiling = min(self._largest, self._ceiling + self._ceiling // 10 + 1)


def _whole(value: object, default: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return default


class InFlight:
    """How many requests are on their way at once.

    One more while that brings more bytes a second, half as many when the node
    suffers, and a few beyond for what is urgent.
    """

    # Enough to hide 30 ms of latency behind decoding; few enough that a small node
    # is not drowned, and that what is on its way fits into memory.
    FIRST: Final = 8
    LARGEST: Final = 16
    _URGENT: Final = 2
    # An increase that is smaller than this is noise.
    _WORTHWHILE: Final = 1.05

    def __init__(
        self, clock: Clock, first: int = FIRST, largest: int = LARGEST
    ) -> None:
        self._clock = clock
        self._floor = min(2, first)
        self._largest = max(first, largest)
        self.limit = first
        self.now = 0
        self._shrunk_at = float("-inf")
        self._throughput = 0.0
        self._was_full = False
        self._open_window()

    def has_room(self, *, urgent: bool = False) -> bool:
        """Tell whether one more may be sent."""
        return self.now < self.limit + (self._URGENT if urgent else 0)

    def began(self) -> None:
        """Take note of a request that is sent."""
        self.now += 1
        self._was_full = self._was_full or self.now >= self.limit

    def ended(self) -> None:
        """Take note of a request that has ended, however it did."""
        self.now -= 1

    def succeeded(self, received: int) -> None:
        """Learn from an answer of ``received`` bytes."""
        self._answers += 1
        self._received += received
        if self._answers < 2 * self.limit:
            return
        seconds = max(1e-6, self._clock() - self._since)
        throughput = self._received / seconds
        if self._was_full and throughput > self._WORTHWHILE * self._throughput:
            self.limit = min(self._largest, self.limit + 1)
            self._throughput = throughput
        else:
            # Forgotten slowly, so that a node that got better is noticed.
            self._throughput *= 0.998
        self._open_window()

    def suffered(self, sent_at: float) -> None:
        """Learn from a request, sent at ``sent_at``, that failed under load."""
        if sent_at <= self._shrunk_at:
            return
        self._shrunk_at = self._clock()
        self.limit = max(self._floor, self.limit // 2)
        self._throughput = 0.0
        self._open_window()

    def _open_window(self) -> None:
        self._since = self._clock()
        self._answers = self._received = 0
        self._was_full = False
