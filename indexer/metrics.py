"""The collectors, in a registry of their own; made by whoever runs a service.

Names follow Prometheus' conventions; every label has few values.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

# From a no-op job to a range of dense blocks on a slow node.
_JOB_SECONDS = (0.01, 0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200)
_CLAIM_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1, 10)


class Metrics:
    """What one process counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.jobs_claimed = Counter(
            "indexer_jobs_claimed",
            "Jobs claimed by this process.",
            registry=self.registry,
        )
        self.claim_seconds = Histogram(
            "indexer_claim_seconds",
            "Time a claim statement took.",
            buckets=_CLAIM_SECONDS,
            registry=self.registry,
        )
        self.jobs_ended = Counter(
            "indexer_jobs_ended",
            "Executions by how they ended.",
            ["kind", "ending"],
            registry=self.registry,
        )
        self.job_retries = Counter(
            "indexer_job_retries",
            "Executions given back after an error or an outage, by its type.",
            ["kind", "reason"],
            registry=self.registry,
        )
        self.job_seconds = Histogram(
            "indexer_job_seconds",
            "Time an execution took.",
            ["kind"],
            buckets=_JOB_SECONDS,
            registry=self.registry,
        )
        self.leases_expired = Counter(
            "indexer_leases_expired",
            "Leases that this process's reaper took back.",
            registry=self.registry,
        )
        self.heartbeats_failed = Counter(
            "indexer_heartbeats_failed",
            "Heartbeats that got no answer.",
            registry=self.registry,
        )
        self.blocks_stored = Counter(
            "indexer_blocks_stored",
            "Blocks that were not stored before.",
            registry=self.registry,
        )
        self.tip_height = Gauge(
            "indexer_tip_height",
            "The next height the follower wants, less one.",
            registry=self.registry,
        )

    def exposition(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        return generate_latest(self.registry)
