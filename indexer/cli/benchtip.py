"""``indexer bench tip``: measure how soon a new block is seen."""

from __future__ import annotations

import asyncio
import json

import click
from rich.console import Console
from rich.table import Table

from indexer.cli.benchserver import bench_server
from indexer.cli.options import json_option, log_options
from indexer.cli.runtime import settings
from indexer.services.bench.tip import TipBench, TipReport, run_tip_bench


@click.command()
@click.option(
    "--database-url",
    metavar="URL",
    help="PostgreSQL to measure; schemas of its own are made and dropped in it. "
    "[default: an embedded server in a temporary directory]",
)
@click.option(
    "--rate",
    "rates",
    multiple=True,
    type=click.FloatRange(0.01, 1000),
    default=(1.0, 4.0, 20.0),
    show_default=True,
    help="New blocks a second; may be repeated.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(1),
    default=30.0,
    show_default=True,
    help="How long each rate is kept up.",
)
@click.option(
    "--backfill-blocks",
    type=click.IntRange(1_000),
    default=800_000,
    show_default=True,
    help="How much there is for the backfill to do meanwhile.",
)
@click.option("--concurrency", type=click.IntRange(1), default=10, show_default=True)
@json_option
@log_options
def tip(
    database_url: str | None,
    rates: tuple[float, ...],
    seconds: float,
    backfill_blocks: int,
    concurrency: int,
    as_json: bool,
    **given: object,
) -> None:
    """Mine blocks on the built-in node and see when their rows and logs are there.

    Over WebSocket, beside an idle worker and beside one that backfills on half of the
    cores, with its part of PostgreSQL where the server is the benchmark's own. A block
    without transactions has its logs when it is known to have none.
    """
    settings(**given)
    with bench_server(database_url) as server:
        report = asyncio.run(
            run_tip_bench(
                TipBench(
                    database_url=server.url,
                    is_local=server.pid is not None,
                    rates=rates,
                    seconds=seconds,
                    backfill_blocks=backfill_blocks,
                    concurrency=concurrency,
                ),
                say=lambda text: click.echo(text, err=True),
            )
        )
    if as_json:
        click.echo(json.dumps(report.shown()))
    else:
        print_tip_report(report)


def print_tip_report(report: TipReport) -> None:
    """Print how long a new block took to be seen."""
    console = Console(width=140)
    table = Table(title="From the node to the tables, ms", title_justify="left")
    table.add_column("beside")
    for name in ("blocks/s", "blocks", "row p50", "p99", "logs p50", "p99"):
        table.add_column(name, justify="right")
    for row in report.rows:
        figures = (row.row_p50, row.row_p99, row.logs_p50, row.logs_p99)
        table.add_row(
            row.beside if row.lasted else f"{row.beside} that ended before",
            f"{row.rate:g}",
            str(row.blocks),
            *(f"{figure:.1f}" for figure in figures),
        )
    console.print(table)
    shown = ", ".join(f"{name} {value}" for name, value in report.server.items())
    console.print(shown, highlight=False)
