"""``indexer bench``: measure this deployment."""

from __future__ import annotations

import asyncio
import json

import click
from rich.console import Console
from rich.table import Table

from indexer.cli.benchqueue import queue
from indexer.cli.benchserver import bench_server
from indexer.cli.benchtip import tip
from indexer.cli.benchverify import verify
from indexer.cli.options import json_option, log_options
from indexer.cli.runtime import settings
from indexer.errors import ConfigError
from indexer.services.bench.backfill import (
    DEFAULT_CASES,
    BackfillBench,
    Report,
    Row,
    Size,
    run_backfill_bench,
)

# Jobs that a profile is cut into: as many as are in flight by default.
_JOBS = 10


@click.group()
def bench() -> None:
    """Measure this deployment with its own settings."""


bench.add_command(queue)
bench.add_command(tip)
bench.add_command(verify)


@bench.command()
@click.option(
    "--database-url",
    metavar="URL",
    help="PostgreSQL to measure; schemas of its own are made and dropped in it. "
    "[default: an embedded server in a temporary directory]",
)
@click.option("--dense-blocks", type=click.IntRange(1), default=800, show_default=True)
@click.option(
    "--sparse-blocks", type=click.IntRange(1), default=50_000, show_default=True
)
@click.option(
    "--case",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only this case; may be repeated. [default: all]",
)
@click.option("--repeat", type=click.IntRange(1), default=3, show_default=True)
@click.option("--concurrency", type=click.IntRange(1), default=10, show_default=True)
@click.option("--processes", type=click.IntRange(1), default=1, show_default=True)
@json_option
@log_options
def backfill(
    database_url: str | None,
    dense_blocks: int,
    sparse_blocks: int,
    names: tuple[str, ...],
    repeat: int,
    concurrency: int,
    processes: int,
    as_json: bool,
    **given: object,
) -> None:
    """Index the built-in node's chain, beside COPY of the very same rows.

    Every case is run in turns with raw COPY: binary COPY of rows that are encoded
    already, from one connection into the same tables with the same indexes. Medians;
    the ratios are what can be compared between machines.
    """
    settings(**given)
    cases = [case for case in DEFAULT_CASES if not names or case.name in names]
    if not cases:
        known = ", ".join(repr(case.name) for case in DEFAULT_CASES)
        raise ConfigError(f"--case is one of {known}")
    with bench_server(database_url) as server:
        report = asyncio.run(
            run_backfill_bench(
                BackfillBench(
                    database_url=server.url,
                    postmaster_pid=server.pid,
                    sizes={
                        "dense": Size(dense_blocks, -(-dense_blocks // _JOBS)),
                        "sparse": Size(sparse_blocks, -(-sparse_blocks // _JOBS)),
                    },
                    cases=cases,
                    repeat=repeat,
                    concurrency=concurrency,
                    processes=processes,
                ),
                say=lambda text: click.echo(text, err=True),
            )
        )
    if as_json:
        click.echo(json.dumps(report.shown()))
    else:
        print_report(report)


def print_report(report: Report) -> None:
    """Print the table of cases and what each stage costs."""
    console = Console(width=140)
    table = Table(title="Backfill", title_justify="left")
    for name in ("profile", "case"):
        table.add_column(name)
    for name in (
        "blocks/s",
        "of raw COPY",
        "rows/s",
        "JSON MB/s",
        "calls/block",
        "HTTP/block",
        "CPU ms/block: worker",
        "PostgreSQL",
        "node",
        "peak MiB",
    ):
        table.add_column(name, justify="right")
    for row in report.rows:
        table.add_row(*_cells(row))
    console.print(table)
    stages = Table(title="CPU ms/block of each stage alone", title_justify="left")
    stages.add_column("profile")
    for name in next(iter(report.stages_ms.values())):
        stages.add_column(name, justify="right")
    for profile, spent in report.stages_ms.items():
        stages.add_row(profile, *(f"{each:.3f}" for each in spent.values()))
    console.print(stages)
    shown = ", ".join(f"{name} {value}" for name, value in report.server.items())
    console.print(shown, highlight=False)


def _cells(row: Row) -> list[str]:
    return [
        row.profile,
        row.name,
        f"{row.blocks_a_second:,.0f}",
        _shown(row.ratio_to_raw, ".2f"),
        f"{row.rows / row.seconds:,.0f}",
        f"{row.json_bytes / row.seconds / 1e6:.0f}",
        _shown(row.calls_a_block, ".2f"),
        _shown(row.http_requests_a_block, ".4f"),
        *(
            _shown(row.cpu_ms.get(part), ".3f")
            for part in ("worker", "postgres", "node")
        ),
        _shown(row.peak_rss_mib.get("worker"), ".0f"),
    ]


def _shown(value: float | None, how: str) -> str:
    return "" if value is None else format(value, how)
