"""Whether the tip rises: by the clock, whatever nodes say in between."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

# Below this a quiet chain or a slow node is nothing to report.
_PATIENCE_SECONDS = 60.0
# Of the time a block took so far, so that slow chains are given more.
_PATIENCE_BLOCKS = 10

log = logging.getLogger(__name__)


class Watchdog:
    """Complains when the tip has not risen above every height before for long.

    Only a new highest height counts: heads that go back and forth behind a load
    balancer, reorganisations and reconnects do not reset the clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._highest = -1
        self._rose_at = clock()
        self._warned_at = float("-inf")
        self._block_seconds = 0.0
        self._reason: str | None = None
        self._is_watching = False

    def watch(self) -> None:
        """Begin, as this process became the one that follows."""
        if not self._is_watching:
            self._is_watching = True
            self._rose_at = self._clock()

    def rest(self) -> None:
        """Watch nothing while another process follows."""
        self._is_watching = False

    def reached(self, height: int) -> bool:
        """Take note of the tip; return whether it rose."""
        if height <= self._highest:
            return False
        now = self._clock()
        if self._highest >= 0:
            each = (now - self._rose_at) / (height - self._highest)
            known = self._block_seconds or each
            self._block_seconds = 0.8 * known + 0.2 * each
        self._highest = height
        self._rose_at = now
        self._reason = None
        return True

    def because(self, reason: str) -> None:
        """Remember what stands in the way, for the complaint."""
        self._reason = reason

    def complaint(self) -> str | None:
        """Say since when there was no progress and why, or None while there is."""
        still = self._clock() - self._rose_at
        if not self._is_watching or still <= self._patience():
            return None
        where = f"above block {self._highest}" if self._highest >= 0 else "yet"
        text = f"no new block {where} for {still:.0f} s"
        return text if self._reason is None else f"{text}: {self._reason}"

    def warn(self) -> None:
        """Log the complaint, if there is one, once in a while."""
        complaint = self.complaint()
        if complaint and self._clock() - self._warned_at > self._patience():
            self._warned_at = self._clock()
            log.warning("%s", complaint)

    def _patience(self) -> float:
        return max(_PATIENCE_SECONDS, _PATIENCE_BLOCKS * self._block_seconds)
