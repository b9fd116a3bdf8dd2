"""How an endpoint fares: failures in a row, and offences against the truth; no I/O."""

from __future__ import annotations

from random import Random
from typing import Final

from indexer.backoff import delay_seconds
from indexer.chain.limits import Clock


class Breaker:
    """Leaves an endpoint alone for a while after it failed.

    When the time is over one request is let through to try, and the others wait for
    how that ends.
    """

    # Half a second passes in a hiccup of a load balancer; half a minute is soon
    # enough to notice that a node is back.
    _BASE_SECONDS: Final = 0.5
    _CAP_SECONDS: Final = 30.0
    # One that takes longer must not keep the others waiting: it may be a large block.
    _PROBE_SECONDS: Final = 1.0

    def __init__(self, clock: Clock, random: Random | None = None) -> None:
        self._clock = clock
        self._random = random
        self._failures = 0
        self._failed_at = float("-inf")
        self._closed_at = float("-inf")
        self._probed_at = float("-inf")

    def wait_seconds(self) -> float:
        """Return how long the endpoint is still to be left alone."""
        now = self._clock()
        wait = self._closed_at - now
        if wait > 0 or not self._failures:
            return max(0.0, wait)
        return max(0.0, self._probed_at + self._PROBE_SECONDS - now)

    @property
    def is_open(self) -> bool:
        """Whether it failed and has not answered since."""
        return self._failures > 0

    def probing(self) -> None:
        """Take note that somebody tries it; the others wait meanwhile."""
        if self._failures:
            self._probed_at = self._clock()

    def succeeded(self) -> None:
        """Take note that the endpoint answers."""
        self._failures = 0
        self._closed_at = self._probed_at = float("-inf")

    def failed(self, sent_at: float, *, at_least: float | None = None) -> None:
        """Take note of a failure of a request that was sent at ``sent_at``.

        ``at_least`` is the time the endpoint asked for, in seconds. Requests that
        were on their way together are one failure.
        """
        if sent_at <= self._failed_at:
            return
        now = self._failed_at = self._clock()
        self._probed_at = float("-inf")
        delay = delay_seconds(
            self._failures,
            base=self._BASE_SECONDS,
            cap=self._CAP_SECONDS,
            random=self._random,
        )
        self._failures += 1
        # Never earlier than asked for: jitter only adds.
        self._closed_at = now + delay + (at_least or 0.0)


class Trust:
    """Whether an endpoint gave what others proved wrong or could give better."""

    _BASE_SECONDS: Final = 5.0
    _CAP_SECONDS: Final = 600.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offences = 0
        self._offended_at = float("-inf")
        self._until = float("-inf")

    @property
    def is_lost(self) -> bool:
        """Whether others are to be asked first for now."""
        return self._clock() < self._until

    def offended(self) -> None:
        """Take note of an offence: twice as long in disgrace as for the one before.

        Only time heals: an endpoint that lies about logs is right about blocks.
        """
        now = self._clock()
        if now - self._offended_at > self._CAP_SECONDS:
            self._offences = 0
        self._offended_at = now
        seconds = min(self._CAP_SECONDS, self._BASE_SECONDS * 2.0**self._offences)
        self._offences = min(20, self._offences + 1)
        self._until = max(self._until, now + seconds)
