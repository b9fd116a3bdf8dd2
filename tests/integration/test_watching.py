"""All that is watched: a metric, a panel, an alert where one makes sense, a line."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from indexer.cli.status import print_status
from indexer.db.connection import Database
from indexer.metrics import Metrics
from indexer.services.exporter import Exporter
from indexer.services.status import health, read_status
from tests.support import postgres, watched
from tests.support.jobs import queue, rows, until

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
Move = Callable[[Database, Metrics], AbstractAsyncContextManager[None]]


class Watched(NamedTuple):
    """One thing that is watched.

    ``status`` leads through what ``status --json`` prints; ``line`` is a pattern of
    what a terminal shows once ``move`` has happened. ``alert`` is None where the thing
    alone says nothing about whether anybody has to do something.
    """

    metric: str
    status: str
    line: str
    move: Move
    alert: str | None


QUEUE = {
    "pending jobs": Watched(
        "indexer_queue_pending",
        "queue.pending",
        r"queue . 5 pending",
        watched.waiting,
        "IndexerGaps",
    ),
    "running jobs": Watched(
        "indexer_queue_running",
        "queue.running",
        r"0 pending, 2 running",
        watched.held,
        "IndexerNobodyWorks",
    ),
    "age of the oldest pending job": Watched(
        "indexer_queue_oldest_pending_age_seconds",
        "queue.oldest_pending_seconds",
        r"waiting . the oldest for [12]\.\d min",
        watched.waiting,
        "IndexerOldestJobOld",
    ),
    # Read beside the wait, which has an alert: by itself a long job is just long.
    "job duration": Watched(
        "indexer_queue_job_duration_median_seconds",
        "queue.durations.test.median_seconds",
        r"test takes 2\d\.\d+ s",
        watched.worked,
        None,
    ),
    "job duration of one worker": Watched(
        "indexer_job_seconds_count",
        "queue.durations.test.finished_last_hour",
        r"1 jobs finished",
        watched.worked,
        None,
    ),
    "retry rate": Watched(
        "indexer_queue_retry_ratio",
        "queue.retry_rate",
        r"100\.0 % of .* repeated",
        watched.erred,
        "IndexerManyRetries",
    ),
    "failure rate": Watched(
        "indexer_queue_failure_ratio",
        "queue.failure_rate",
        r"100\.0 % of .* failed",
        watched.failed,
        "IndexerManyFailures",
    ),
    "failed jobs": Watched(
        "indexer_queue_failed",
        "queue.failed",
        r"1 failed",
        watched.failed,
        "IndexerFailedJobs",
    ),
    "expired leases an hour": Watched(
        "indexer_queue_expired_leases_last_hour",
        "queue.expired_leases_last_hour",
        r"1 leases expired",
        watched.lost,
        "IndexerLeasesExpire",
    ),
    "claim latency": Watched(
        "indexer_claim_seconds_sum",
        "queue.probe_seconds",
        r"finding it took \d+\.\d ms",
        watched.claimed_over_dead_rows,
        "IndexerClaimsSlow",
    ),
    "claim latency as anybody would find it": Watched(
        "indexer_queue_probe_seconds",
        "queue.probe_seconds",
        r"finding it took \d+\.\d ms",
        watched.claimed_over_dead_rows,
        "IndexerQueueProbeSlow",
    ),
}
DATABASE = {
    "dead rows": Watched(
        "indexer_queue_table_dead_rows",
        "database.queue_table.dead_rows",
        r"about [45]\d\d dead rows",
        watched.updated,
        "IndexerDeadRowsGrow",
    ),
    "their trend": Watched(
        "indexer_queue_table_dead_rows",
        "database.queue_table.dead_rows_per_hour",
        r"[\d,]+ more an hour",
        watched.updated,
        "IndexerDeadRowsGrow",
    ),
    "autovacuum frequency": Watched(
        "indexer_queue_table_autovacuums_total",
        "database.queue_table.autovacuums_per_hour",
        r"autovacuum ran .* ago, \d+\.\d times an hour",
        watched.autovacuumed,
        "IndexerAutovacuumAbsent",
    ),
    "connections": Watched(
        "indexer_database_connections_used",
        "database.connections.used",
        r"connections . \d+ of \d+ used",
        watched.connected,
        "IndexerConnectionsScarce",
    ),
    # How much is too much only the disk and the replicas know, which have alerts.
    "WAL volume": Watched(
        "indexer_database_wal_bytes_total",
        "database.wal_bytes",
        r"WAL . .* written so far",
        watched.written,
        None,
    ),
    "replication lag": Watched(
        "indexer_database_replication_lag_bytes",
        "database.replicas.0.lag_bytes",
        r"reporting, .*: .*B behind",
        watched.replicated,
        "IndexerReplicaBehind",
    ),
    "long transactions": Watched(
        "indexer_database_longest_transaction_seconds",
        "database.long_transactions.0.seconds",
        r"session \d+ .*\(lunch\)",
        watched.forgotten,
        "IndexerLongTransaction",
    ),
    "sessions idle in a transaction": Watched(
        "indexer_database_connections_idle_in_transaction",
        "database.connections.idle_in_transaction",
        r"[1-9]\d* idle in a transaction",
        watched.forgotten,
        "IndexerSessionsIdleInTransaction",
    ),
    "what pins vacuum": Watched(
        "indexer_database_vacuum_pinned_seconds",
        "database.vacuum_pins.0.seconds",
        r"vacuum pinned . session \d+ .*pg_terminate_backend",
        watched.forgotten,
        "IndexerVacuumPinned",
    ),
}
EACH = {**QUEUE, **DATABASE}


@pytest.fixture(scope="module")
def prompt_server() -> Iterator[tuple[str, str]]:
    """A server whose autovacuum looks every second, and its migrated template."""
    with (
        postgres.private_server(autovacuum_naptime="1s") as server,
        postgres.migrated_template(server.url) as template,
    ):
        yield server.url, template


@pytest.fixture
async def database(prompt_server: tuple[str, str]) -> AsyncIterator[Database]:
    with postgres.new_database(*prompt_server) as url:
        async with queue(url) as opened:
            yield opened


@pytest.fixture(autouse=True)
def every_transaction_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are not waited for here; that they are is shown end to end."""
    monkeypatch.setattr(health, "LONG_TRANSACTION", timedelta(0))
    # A line is a line, however wide.
    monkeypatch.setenv("COLUMNS", "1000")


async def metric(database: Database, metrics: Metrics, name: str) -> float:
    """Return what a worker or a fresh exporter says, all labels together."""
    shown = await Exporter(database).exposition() + metrics.exposition()
    samples: list[Sample] = [
        sample
        for family in text_string_to_metric_families(shown.decode())
        for sample in family.samples
    ]
    return sum(each.value for each in samples if each.name == name)


def at(found: object, path: str) -> float:
    """Return what lies at a path; nothing is nought."""
    for step in path.split("."):
        if isinstance(found, list):
            found = dict(enumerate(found)).get(int(step))
        elif isinstance(found, dict):
            found = found.get(step)
    return found if isinstance(found, int | float) else 0.0


@pytest.mark.parametrize("what", EACH)
async def test_it_moves_in_the_metric_in_status_and_in_its_line(
    what: str, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    item, metrics = EACH[what], Metrics()
    before = at(await read_status(database), item.status)
    counted = await metric(database, metrics, item.metric)
    async with item.move(database, metrics):

        async def moved() -> bool:
            # The server counts when a session has been idle for a moment.
            await rows(database, "select pg_stat_force_next_flush()")
            return (
                at(await read_status(database), item.status) > before
                and await metric(database, metrics, item.metric) > counted
            )

        await until(moved, what)
        found = await read_status(database)
        json.dumps(found)
        print_status(found)
        assert re.search(item.line, " ".join(capsys.readouterr().out.split()))


@functools.cache
def queries() -> list[str]:
    """Every panel's queries."""
    return [
        target["expr"]
        for path in (DEPLOY / "grafana" / "dashboards").glob("*.json")
        for panel in json.loads(path.read_text())["panels"]
        for target in panel.get("targets", [])
    ]


@functools.cache
def rules() -> dict[str, str]:
    """Every alert's expression."""
    groups: list[dict[str, Any]] = yaml.safe_load(
        (DEPLOY / "prometheus" / "rules.yml").read_text()
    )["groups"]
    return {rule["alert"]: rule["expr"] for each in groups for rule in each["rules"]}


@pytest.mark.parametrize("what", EACH)
def test_it_has_a_panel_and_where_one_makes_sense_an_alert(what: str) -> None:
    item = EACH[what]
    # A histogram is drawn and watched by its buckets.
    name = re.sub(r"_(count|sum)$", "_bucket", item.metric)
    uses = re.compile(rf"\b{name}\b")
    assert any(uses.search(each) for each in queries())
    assert item.alert is None or uses.search(rules()[item.alert])
