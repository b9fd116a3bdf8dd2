"""How a worker works."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from indexer.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The settings of a worker, with the defaults of the command line.

    ``heartbeat`` None is a third of the lease; ``claim_batch`` None is as many as
    there are free slots.
    """

    concurrency: int = 10
    lease: timedelta = timedelta(seconds=60)
    heartbeat: timedelta | None = None
    poll_interval: timedelta = timedelta(seconds=30)
    grace: timedelta = timedelta(seconds=30)
    job_deadline: timedelta | None = None
    max_errors: int = 5
    max_lost_leases: int = 20
    claim_batch: int | None = None
    history_retention: timedelta = timedelta(days=30)

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ConfigError("--concurrency must be at least 1")
        if not timedelta(0) < self.heartbeat_interval <= self.lease / 3:
            raise ConfigError(
                "--heartbeat must be at most a third of --lease, so that two lost "
                "heartbeats cost no claim"
            )

    @property
    def heartbeat_interval(self) -> timedelta:
        """The given interval, else a third of the lease."""
        return self.heartbeat if self.heartbeat is not None else self.lease / 3
