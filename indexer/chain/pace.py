"""How fast an endpoint may be asked: by what the user says and by what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from indexer.chain.limits import Clock

# A batch is a burst. One of a quarter of a second's worth passes the small buckets
# that providers have, and costs at most four round trips a second.
_BATCH_SECONDS: Final = 0.25
# What timers oversleep may be caught up with, no more.
_CATCH_UP_SECONDS: Final = 0.1
_LOWEST: Final = 0.1
# Few providers allow less, and those are found by halves.
_FIRST_GUESS: Final = 20.0
# Between two refusals the node's bucket was refilled by as much as it let through.
# Over less than this many seconds, what it was filled with at first tells more.
_TELLING_SECONDS: Final = 1.0
_PAUSED_PART: Final = 0.2
_SAME_PART: Final = 0.1
# Below the rate that was found, so that a bucket never runs dry of rounding.
_BELOW: Final = 0.97
_SHRINK: Final = 0.5
# While only a guess is known the rate rises until it is refused; one that was found
# is held for a while and then raised slowly: each time costs a few refusals.
_GUESS_GROWTH: Final = 1.2
_FOUND_GROWTH: Final = 1.01
_HOLD_SECONDS: Final = 15.0
_PAUSE_SECONDS: Final = 0.25
_LONGEST_PAUSE_SECONDS: Final = 30.0
# Of the last ten answers or so three refusals make a limit; one is a hiccup.
_WEIGHT: Final = 0.1
_CONFIRMED: Final = 0.25
_SURE_SECONDS: Final = 5.0


class Pace:
    """Spreads requests over time; does no I/O.

    ``given`` is requests a second, each item of a batch counted. A rate of the
    node's own is learned from its refusals: a bucket that is empty at two refusals
    let through exactly what it was refilled with in between.
    """

    def __init__(self, given: float | None, clock: Clock) -> None:
        self._given = given
        self._clock = clock
        self._learned: float | None = None
        self._is_found = False
        self._before = 0.0
        self._grown_at = clock()
        self._free_at = clock()
        self._paused = 0.0
        self._paused_until = float("-inf")
        self._since = clock()
        self._accepted = self._sent = 0
        self._refused = 0.0
        self._refused_at = self._learned_at = float("-inf")
        self._run = 0
        # What part of the rate is for us, the rest being somebody else's.
        self.share = 1.0

    @property
    def rate(self) -> float | None:
        """Requests a second, None where nothing limits them."""
        rates = [each for each in (self._given, self._grown()) if each is not None]
        return min(rates) * self.share if rates else None

    @property
    def largest_batch(self) -> int | None:
        """How many requests may be sent at once, None where nothing limits them."""
        rate = self.rate
        return None if rate is None else max(1, int(rate * _BATCH_SECONDS))

    def wait_seconds(self) -> float:
        """Return how long to wait before the next request."""
        free_at = self._paused_until
        if self.rate is not None:
            free_at = max(free_at, self._free_at)
        return max(0.0, free_at - self._clock())

    def pause_seconds(self) -> float:
        """Return how long the node asked to be left alone yet."""
        return max(0.0, self._paused_until - self._clock())

    def book(self, requests: int) -> None:
        """Take note of requests that are sent now."""
        self._sent += requests
        rate = self.rate
        if rate is not None:
            start = max(self._free_at, self._clock() - _CATCH_UP_SECONDS)
            self._free_at = start + requests / rate

    def accepted(self, requests: int) -> None:
        """Take note of requests that the node did not refuse."""
        self._accepted += requests
        self._refused *= 1 - _WEIGHT
        self._run = 0

    def limited(self, sent_at: float, *, retry_after: float | None) -> None:
        """Learn from a refusal of a request that was sent at ``sent_at``."""
        now = self._clock()
        pause = retry_after
        if pause is None:
            pause = min(_LONGEST_PAUSE_SECONDS, _PAUSE_SECONDS * 2.0**self._run)
        if sent_at > self._refused_at:
            # Those that were on their way together are one of a run, which ends with
            # the first that is accepted.
            self._run += 1
            self._refused_at = now
        self._paused += max(0.0, now + pause - max(now, self._paused_until))
        self._paused_until = max(self._paused_until, now + pause)
        self._refused += (1 - self._refused) * _WEIGHT
        is_sure = self._refused > _CONFIRMED
        if self._is_found and now - self._since > _SURE_SECONDS:
            # That there is a limit is known, only where it is may have changed.
            is_sure = True
        if is_sure and sent_at > self._learned_at:
            self._learn(now)

    def _learn(self, now: float) -> None:
        elapsed = now - self._since
        current = self._learned
        is_telling = elapsed >= _TELLING_SECONDS and self._accepted > 0
        if current is None:
            found = max(_FIRST_GUESS, self._accepted / max(1.0, elapsed))
        elif self._sent < _SHRINK * current * elapsed:
            # We asked for little, so it was somebody else who asked for too much.
            found = current
        elif is_telling:
            seen = max(self._accepted / elapsed, _SHRINK * current)
            found = _BELOW * min(seen, current)
        else:
            found = _SHRINK * current
        self._learned = max(_LOWEST, found)
        # While we paused the bucket may have run over; the same twice is no chance.
        is_whole = self._paused <= _PAUSED_PART * elapsed
        is_same = abs(found - self._before) < _SAME_PART * found
        self._is_found = is_telling and (is_whole or is_same) and current is not None
        self._before = found
        self._paused = 0.0
        self._since = self._learned_at = self._grown_at = self._free_at = now
        self._accepted = self._sent = 0
        self._refused = 0.0

    def _grown(self) -> float | None:
        """Return the learned rate, raised by what time has passed."""
        if self._learned is None:
            return None
        now = self._clock()
        since = self._grown_at
        if self._is_found:
            since = max(since, self._since + _HOLD_SECONDS)
        growth = _FOUND_GROWTH if self._is_found else _GUESS_GROWTH
        if now > since:
            # Not beyond what is used: idle time proves nothing.
            used = self._accepted / max(1.0, now - self._since)
            grown = self._learned * growth ** (now - since)
            self._learned = max(self._learned, min(grown, 2 * used + 1.0))
            self._grown_at = now
        return self._learned

    def learned(self) -> dict[str, float]:
        """Return what is worth remembering of a node."""
        if self._learned is None:
            return {}
        return {"requests_per_second": round(self._learned, 3)}

    def restore(self, limits: Mapping[str, object]) -> None:
        """Begin where another process ended."""
        rate = limits.get("requests_per_second")
        if isinstance(rate, int | float) and not isinstance(rate, bool) and rate > 0:
            self._learned = max(_LOWEST, float(rate))
            self._is_found = True
            self._grown_at = self._since = self._clock()
