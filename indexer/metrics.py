"""The collectors, in a registry of their own; made by whoever runs a service.

Names follow Prometheus' conventions; every label has few values.
"""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

# From a no-op job to a range of dense blocks on a slow node.
_JOB_SECONDS = (0.01, 0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200)
_CLAIM_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1, 10)
_CHUNK_SECONDS = (0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15)
_REQUEST_SECONDS = (0.002, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
_BATCH_REQUESTS = (1, 5, 20, 50, 100, 200, 500, 1000)

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """What one process counts."""

    def __init__(self) -> None:
        # When each counter was made is of no use to anybody who looks.
        disable_created_metrics()  # type: ignore[no-untyped-call]
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
        self.chunk_seconds = Histogram(
            "indexer_chunk_seconds",
            "Time a chunk's transaction took, from its opening to its commit.",
            buckets=_CHUNK_SECONDS,
            registry=self.registry,
        )
        self.jobs_running = Gauge(
            "indexer_jobs_running",
            "Claims of this process that are in flight.",
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
        self.heartbeat_age = Gauge(
            "indexer_heartbeat_age_seconds",
            "How long ago the last heartbeat was answered.",
            registry=self.registry,
        )
        self.listener_up = Gauge(
            "indexer_listener_up",
            "Whether notifications of new jobs arrive; else they are polled for.",
            registry=self.registry,
        )
        self.rows_written = Counter(
            "indexer_rows_written",
            "Rows sent to PostgreSQL, by table; repeated ones included.",
            ["table"],
            registry=self.registry,
        )
        self.bytes_written = Counter(
            "indexer_written_bytes",
            "Bytes of rows sent to PostgreSQL, by table.",
            ["table"],
            registry=self.registry,
        )
        self.inflight_bytes = Gauge(
            "indexer_inflight_bytes",
            "Bytes fetched from nodes and not yet written.",
            registry=self.registry,
        )
        self._add_rpc()
        self._add_tip()

    def _add_rpc(self) -> None:
        self.rpc_requests = Counter(
            "indexer_rpc_requests",
            "Requests to nodes, each item of a batch counted.",
            ["endpoint", "method", "outcome"],
            registry=self.registry,
        )
        self.rpc_seconds = Histogram(
            "indexer_rpc_seconds",
            "Time until a batch, or a single request, was answered or given up.",
            ["endpoint"],
            buckets=_REQUEST_SECONDS,
            registry=self.registry,
        )
        self.rpc_batch = Histogram(
            "indexer_rpc_batch_requests",
            "Requests sent together.",
            ["endpoint"],
            buckets=_BATCH_REQUESTS,
            registry=self.registry,
        )
        self.rpc_bytes = Counter(
            "indexer_rpc_received_bytes",
            "Bytes of answers, by endpoint.",
            ["endpoint"],
            registry=self.registry,
        )
        self.breaker_open = Gauge(
            "indexer_rpc_breaker_open",
            "Whether an endpoint is left alone for a while after failures.",
            ["endpoint"],
            registry=self.registry,
        )

    def _add_tip(self) -> None:
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
        self.head_height = Gauge(
            "indexer_head_height",
            "The node's newest block, as last heard.",
            registry=self.registry,
        )
        self.tip_lag = Gauge(
            "indexer_tip_lag_blocks",
            "Blocks the node has and we do not, as last heard.",
            registry=self.registry,
        )
        self.tip_lag.set_function(self._lag)
        self.tip_grew = Gauge(
            "indexer_tip_grew_timestamp_seconds",
            "When the tip last rose above every height before, in Unix time.",
            registry=self.registry,
        )
        self.reorgs = Counter(
            "indexer_reorgs",
            "Reorganisations handled.",
            registry=self.registry,
        )
        self.blocks_replaced = Counter(
            "indexer_blocks_replaced",
            "Stored blocks that reorganisations replaced.",
            registry=self.registry,
        )

    def head(self) -> float:
        """Return the node's newest block, as last heard; 0 before that."""
        return _value(self.head_height)

    def _lag(self) -> float:
        tip = _value(self.tip_height)
        return max(0.0, self.head() - tip) if tip else 0.0

    def exposition(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        return generate_latest(self.registry)


def _value(gauge: Gauge) -> float:
    [family] = gauge.collect()
    return family.samples[0].value
