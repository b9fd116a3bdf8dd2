"""``indexer bench queue``: measure the queue of this deployment."""

from __future__ import annotations

import asyncio
import json
import logging

import click
from rich.console import Console
from rich.table import Table

from indexer.cli.benchserver import bench_server
from indexer.cli.options import json_option, log_options
from indexer.cli.runtime import settings
from indexer.errors import ConfigError
from indexer.services.bench.queue import (
    CASES,
    LARGE_CASES,
    QueueBench,
    QueueReport,
    QueueRow,
    run_queue_bench,
)


@click.command()
@click.option(
    "--database-url",
    metavar="URL",
    help="PostgreSQL to measure; schemas of its own are made and dropped in it. "
    "[default: an embedded server in a temporary directory]",
)
@click.option("--jobs", type=click.IntRange(1), default=20_000, show_default=True)
@click.option("--payload-bytes", type=click.IntRange(0), default=40, show_default=True)
@click.option(
    "--claim-batch",
    type=click.IntRange(1),
    help="Jobs a claim takes at most. [default: by how soon they are done]",
)
@click.option("--heartbeat", metavar="TIME", help="[default: a third of the lease]")
@click.option("--concurrency", type=click.IntRange(1), default=10, show_default=True)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Processes, each with that concurrency.",
)
@click.option(
    "--case",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only this case; may be repeated. [default: all but the large ones]",
)
@click.option(
    "--large",
    is_flag=True,
    help="Also with 1,000,000 jobs pending and 10,000,000 in history, and after "
    "1,000,000 jobs of churn: takes minutes and gigabytes.",
)
@json_option
@log_options
def queue(
    database_url: str | None,
    names: tuple[str, ...],
    large: bool,
    as_json: bool,
    jobs: int,
    payload_bytes: int,
    claim_batch: int | None,
    concurrency: int,
    workers: int,
    **given: object,
) -> None:
    """Run jobs that do nothing, and tell what the queue makes of them.

    Rates, claim latency, WAL and dead rows a job, and beside it the latency of another
    client's small transactions, and how far a replica is behind where there is one.
    """
    config = settings(**given)
    # A line for each of thousands of jobs that do nothing tells nothing.
    logging.getLogger("indexer.jobs").setLevel(logging.WARNING)
    every = [*CASES, *LARGE_CASES]
    chosen = [case for case in every if case.name in names]
    if names and len(chosen) != len(set(names)):
        raise ConfigError(
            "--case is one of " + ", ".join(repr(case.name) for case in every)
        )
    with bench_server(database_url) as server:
        report = asyncio.run(
            run_queue_bench(
                QueueBench(
                    database_url=server.url,
                    jobs=jobs,
                    payload_bytes=payload_bytes,
                    claim_batch=claim_batch,
                    heartbeat=config.heartbeat,
                    concurrency=concurrency,
                    workers=workers,
                ),
                chosen or [*CASES, *(LARGE_CASES if large else ())],
                say=lambda text: click.echo(text, err=True),
            )
        )
    if as_json:
        click.echo(json.dumps(report.shown()))
    else:
        print_report(report)


def print_report(report: QueueReport) -> None:
    """Print the table of cases and what was measured besides."""
    console = Console(width=140)
    table = Table(title="Queue", title_justify="left")
    table.add_column("case")
    for name in (
        "jobs/s",
        "claim ms: first",
        "p50",
        "p99",
        "WAL B/job",
        "dead rows/job",
        "worker CPU µs/job",
        "other client ms: p50",
        "p99",
        "replica lag",
    ):
        table.add_column(name, justify="right")
    for row in report.rows:
        table.add_row(*_cells(row))
    console.print(table)
    console.print(
        f"enqueue to start: p50 {_shown(report.wake_up_p50_ms)} ms, p99 "
        f"{_shown(report.wake_up_p99_ms)} ms; another client with the queue idle: "
        f"{_shown(report.idle_client_p50_ms)} ms; heartbeats "
        f"{_shown(report.heartbeat_hot_share, '.1%')} HOT",
        highlight=False,
    )
    shown = ", ".join(f"{name} {value}" for name, value in report.server.items())
    console.print(shown, highlight=False)


def _cells(row: QueueRow) -> list[str]:
    lag = "no replica"
    if row.replica_lag_bytes is not None:
        lag = f"{row.replica_lag_bytes:,} B, {_shown(row.replica_lag_seconds)} s"
    return [
        row.name,
        f"{row.jobs_a_second:,.0f}",
        _shown(row.claim_first_ms),
        _shown(row.claim_p50_ms),
        _shown(row.claim_p99_ms),
        f"{row.wal_bytes_a_job:,.0f}",
        f"{row.dead_rows_a_job:.2f}",
        f"{row.worker_cpu_us_a_job:,.0f}",
        _shown(row.client_p50_ms),
        _shown(row.client_p99_ms),
        lag,
    ]


def _shown(value: float | None, how: str = ".2f") -> str:
    return "-" if value is None else format(value, how)
