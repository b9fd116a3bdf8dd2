"""Which lanes a worker claims from, where another process serves the most urgent."""

from __future__ import annotations

from typing import Final

from indexer.jobs.claims import Lane

# The lane that long jobs of others must never keep waiting: backfill fills every slot
# for minutes, and what happens at the tip is wanted within milliseconds.
MOST_URGENT: Final = 0
# What is due for longer than this is claimed by whoever sees it: the process that
# serves the lane starts within seconds, may be killed, or may have more than it can do.
_PATIENCE_SECONDS: Final = 1.0


class Lanes:
    """The lanes of one worker.

    ``only_urgent`` serves the most urgent and no other. ``leaves_urgent`` may be set
    at any time: others serve it, so only what they leave lying is claimed from it.
    """

    def __init__(self, *, only_urgent: bool = False) -> None:
        self.only_urgent = only_urgent
        self.leaves_urgent = False

    @property
    def last(self) -> int:
        """Return a priority for which there is room only if any lane has some."""
        return MOST_URGENT if self.only_urgent else MOST_URGENT + 1

    def serves(self, priority: int) -> bool:
        """Tell whether a lane is claimed from as soon as it has something due."""
        if priority > MOST_URGENT:
            return not self.only_urgent
        return not self.leaves_urgent

    def wait_seconds(self, lane: Lane) -> float | None:
        """Return for how long its earliest job is to wait; None for as long as ours."""
        due_in = lane.due_in.total_seconds()
        if self.serves(lane.priority):
            return due_in
        return None if self.only_urgent else due_in + _PATIENCE_SECONDS
