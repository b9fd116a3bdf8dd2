"""What a worker lets others see; metrics attach themselves here."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from indexer.jobs.job import Job
from indexer.jobs.reaper import Reaped


class Ending(Enum):
    """How an execution ended."""

    COMPLETED = "completed"
    RETRIED = "retried"
    FAILED = "failed"
    SNOOZED = "snoozed"
    RELEASED = "released"
    CANCELLED = "cancelled"
    LOST = "lost"


class Observer(Protocol):
    """Called in the event loop; must neither block nor raise."""

    def claimed(self, jobs: int, *, seconds: float) -> None:
        """A claim statement came back with this many jobs."""

    def ended(self, job: Job, ending: Ending, *, reason: str, seconds: float) -> None:
        """An execution ended; ``reason`` is an exception's type, or empty."""

    def committed(self, *, seconds: float) -> None:
        """A chunk was committed; from opening its transaction on."""

    def reaped(self, jobs: list[Reaped]) -> None:
        """A reaper's pass took these jobs back."""

    def heartbeat_failed(self) -> None:
        """A heartbeat got no answer."""


class NoObserver:
    """Sees nothing."""

    def claimed(self, jobs: int, *, seconds: float) -> None:
        """Ignore it."""

    def ended(self, job: Job, ending: Ending, *, reason: str, seconds: float) -> None:
        """Ignore it."""

    def committed(self, *, seconds: float) -> None:
        """Ignore it."""

    def reaped(self, jobs: list[Reaped]) -> None:
        """Ignore it."""

    def heartbeat_failed(self) -> None:
        """Ignore it."""
