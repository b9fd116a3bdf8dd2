"""The state of the database as metrics."""

from __future__ import annotations

from typing import Any

from indexer.services.exporter.samples import Families

# A label per query text would be without bounds; ten series at a time are not, and it
# is cut so that an alert can be read.
_QUERY_LABEL = 80


def add_health(made: Families, found: dict[str, Any]) -> None:
    """Add what ``read_health`` found."""
    _queue_table(made, found["queue_table"])
    _connections(made, found["connections"])
    _sessions(made, found)
    _wal(made, found)


def _queue_table(made: Families, table: dict[str, Any]) -> None:
    for name, key, text in (
        ("dead_rows", "dead_rows", "Dead rows of the queue's table, an estimate."),
        ("live_rows", "live_rows", "Live rows of the queue's table, an estimate."),
        ("size_bytes", "size_bytes", "The queue's table and indexes on disk."),
        (
            "autovacuum_age_seconds",
            "last_autovacuum_seconds",
            "How long ago autovacuum last ended on the queue's table.",
        ),
    ):
        made.gauge(f"indexer_queue_table_{name}", text, table[key])
    for name, key, text in (
        ("autovacuums", "autovacuums", "Runs of autovacuum on the queue's table."),
        ("updates", "updates", "Updates of the queue's table."),
        ("hot_updates", "hot_updates", "Those that touched no index."),
    ):
        made.counter(f"indexer_queue_table_{name}", text, table[key])


def _connections(made: Families, found: dict[str, Any]) -> None:
    for key, text in (
        ("used", "Client connections of the server."),
        ("allowed", "Connections that ordinary users may open."),
        ("of_indexer", "Connections of this program."),
        ("idle_in_transaction", "Sessions that sit idle in a transaction."),
    ):
        made.gauge(f"indexer_database_connections_{key}", text, found[key])


def _sessions(made: Families, found: dict[str, Any]) -> None:
    long = found["long_transactions"]
    made.gauge(
        "indexer_database_long_transactions",
        "Sessions whose transaction is older than ten seconds.",
        len(long),
    )
    made.gauge(
        "indexer_database_longest_transaction_seconds",
        "Age of the oldest of them.",
        max((each["seconds"] for each in long), default=0.0),
    )
    pins = found["vacuum_pins"]
    made.gauge(
        "indexer_database_vacuum_pins",
        "Sessions, prepared transactions, slots and standbys that hold vacuum back.",
        len(pins),
    )
    # Ten at most are found, so labels stay few.
    for pin in pins:
        labels = {
            "holder": pin["holder"],
            "name": pin["name"],
            "user": pin["user"] or "",
            "application": pin["application"] or "",
            "query": (pin["query"] or "")[:_QUERY_LABEL],
        }
        made.gauge(
            "indexer_database_vacuum_pinned_seconds",
            "For how long each of the worst ten does, named by its labels.",
            pin["seconds"] or 0.0,
            **labels,
        )
        made.gauge(
            "indexer_database_vacuum_pinned_transactions",
            "How many transactions ago its snapshot was taken.",
            pin["transactions"],
            **labels,
        )
    made.gauge(
        "indexer_database_stats_hidden",
        "Whether others' sessions are hidden, for want of pg_read_all_stats.",
        float(bool(found["unseen"])),
    )
    made.gauge(
        "indexer_database_notification_queue_ratio",
        "How full the room for notifications is.",
        found["notification_queue_usage"],
    )


def _wal(made: Families, found: dict[str, Any]) -> None:
    made.counter(
        "indexer_database_wal_bytes", "WAL written by the server.", found["wal_bytes"]
    )
    made.counter("indexer_database_wal_records", "Records of it.", found["wal_records"])
    for each in found["replicas"]:
        for unit in ("bytes", "seconds"):
            made.gauge(
                f"indexer_database_replication_lag_{unit}",
                "How far a standby is behind.",
                each[f"lag_{unit}"],
                replica=each["name"] or "",
            )
    for each in found["slots"]:
        made.gauge(
            "indexer_database_slot_retained_bytes",
            "WAL that a replication slot holds back.",
            each["retained_bytes"],
            slot=each["name"],
        )
