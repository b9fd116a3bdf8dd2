"""Progress, the tip and the queue as metrics."""

from __future__ import annotations

from typing import Any

from indexer.services.exporter.samples import Families


def add_queue(made: Families, found: dict[str, Any]) -> None:
    """Add progress, the tip, the queue and who works on it."""
    _progress(made, found["progress"])
    _tip(made, found["tip"])
    _queue(made, found["queue"])
    _people(made, found)


def _progress(made: Families, found: dict[str, Any]) -> None:
    for name, text in (
        ("planned_blocks", "Heights that were ever planned."),
        ("stored_blocks", "Blocks that are stored."),
        ("stored_events", "Blocks whose receipts and logs are stored."),
        ("proven_blocks", "Blocks whose hashes and roots were recomputed."),
        ("proven_events", "Blocks whose receipts root and bloom were recomputed."),
        ("missing_blocks", "Planned heights whose block is not stored."),
        ("missing_events", "Stored blocks whose receipts and logs are not."),
    ):
        made.gauge(f"indexer_coverage_{name}", text, found[name])
    made.gauge(
        "indexer_coverage_gaps",
        "Intervals of planned heights that are not stored.",
        found["gaps_total"],
    )
    rate = found["rate"]
    made.gauge(
        "indexer_coverage_blocks_per_second",
        "Blocks stored a second over the last minutes.",
        rate["blocks_per_second"],
    )
    made.gauge(
        "indexer_coverage_events_per_second",
        "Blocks whose receipts and logs were stored, a second.",
        rate["events_per_second"],
    )
    made.gauge(
        "indexer_coverage_eta_seconds",
        "Time until all that is planned is stored, if it goes on like that.",
        found["eta_seconds"],
    )


def _tip(made: Families, found: dict[str, Any]) -> None:
    made.gauge(
        "indexer_tip_stored_height", "The highest stored block.", found["highest_block"]
    )
    made.gauge(
        "indexer_tip_age_seconds",
        "How old the highest stored block is.",
        found["age_seconds"],
    )
    made.gauge(
        "indexer_tip_behind_blocks",
        "Blocks that a node has above the highest stored one.",
        found["lag_blocks"],
    )
    made.gauge(
        "indexer_tip_followed",
        "Whether a process follows the tip.",
        float(found["follower"] is not None),
    )
    made.gauge(
        "indexer_tip_contradicted",
        "Whether a node contradicted what was final, within the last hour.",
        float(found["contradiction"] is not None),
    )
    made.gauge(
        "indexer_tip_reorgs_last_day",
        "Reorganisations within the last day.",
        found["reorgs_last_day"],
    )


def _queue(made: Families, found: dict[str, Any]) -> None:
    for kind, states in found["kinds"].items():
        for status in ("pending", "running", "failed"):
            made.gauge(
                "indexer_queue_jobs",
                "Jobs by kind and status; estimated where the queue is large.",
                states.get(status, 0),
                kind=kind,
                status=status,
            )
    for kind, each in found["durations"].items():
        made.gauge(
            "indexer_queue_job_duration_median_seconds",
            "Median of what jobs took that finished within the last hour.",
            each["median_seconds"],
            kind=kind,
        )
        made.gauge(
            "indexer_queue_job_duration_longest_seconds",
            "The longest of them.",
            each["longest_seconds"],
            kind=kind,
        )
    for name, key, text in (
        ("pending", "pending", "Jobs that wait, due or not."),
        ("running", "running", "Jobs that run."),
        ("failed", "failed", "Jobs that failed and were not retried."),
        ("probe_seconds", "probe_seconds", "Time to find the first pending job."),
        ("finished_last_hour", "finished_last_hour", "Jobs finished in an hour."),
        ("errors_last_hour", "errors_last_hour", "Errors of jobs in an hour."),
        (
            "expired_leases_last_hour",
            "expired_leases_last_hour",
            "Leases that were taken back in an hour.",
        ),
        ("retry_ratio", "retry_rate", "Share of executions that were repeated."),
        ("failure_ratio", "failure_rate", "Share of jobs that failed."),
    ):
        made.gauge(f"indexer_queue_{name}", text, found[key])
    made.gauge(
        "indexer_queue_oldest_pending_age_seconds",
        "How long the oldest due job has been waiting.",
        found["oldest_pending_seconds"] or 0.0,
    )
    for priority, age in found["oldest_pending_by_priority"].items():
        made.gauge(
            "indexer_queue_lane_oldest_age_seconds",
            "The same by priority: 0 is the tip, 5 repair, 10 the backfill.",
            age,
            priority=str(priority),
        )
    made.gauge(
        "indexer_queue_unknown_kinds",
        "Pending jobs of kinds that no worker of this program runs.",
        sum(found["unknown_kinds"].values()),
    )


def _people(made: Families, found: dict[str, Any]) -> None:
    made.gauge("indexer_workers", "Workers seen lately.", len(found["workers"]))
    made.gauge(
        "indexer_workers_claims",
        "Claims they can have in flight.",
        sum(each["concurrency"] for each in found["workers"]),
    )
    for each in found["endpoints"]:
        made.gauge(
            "indexer_endpoint_info",
            "Nodes that were used, and their state; always 1.",
            1,
            endpoint=each["name"],
            state=each["state"],
        )
