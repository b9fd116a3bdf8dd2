"""``indexer bench verify``: measure how fast stored rows are proven."""

from __future__ import annotations

import asyncio
import json

import click
from rich.console import Console
from rich.table import Table

from indexer.cli.benchserver import bench_server
from indexer.cli.options import json_option, log_options
from indexer.cli.runtime import settings
from indexer.services.bench.verify import VerifyBench, VerifyReport, run_verify_bench


@click.command()
@click.option(
    "--database-url",
    metavar="URL",
    help="PostgreSQL to measure; schemas of its own are made and dropped in it. "
    "[default: an embedded server in a temporary directory]",
)
@click.option(
    "--dense-blocks", type=click.IntRange(1), default=2_000, show_default=True
)
@click.option(
    "--sparse-blocks", type=click.IntRange(1), default=50_000, show_default=True
)
@click.option(
    "--processes",
    "processes",
    multiple=True,
    type=click.IntRange(1, 256),
    default=(1, 2),
    show_default=True,
    help="Processes that read and prove; may be repeated.",
)
@click.option("--repeat", type=click.IntRange(1), default=3, show_default=True)
@json_option
@log_options
def verify(
    database_url: str | None,
    dense_blocks: int,
    sparse_blocks: int,
    processes: tuple[int, ...],
    repeat: int,
    as_json: bool,
    **given: object,
) -> None:
    """Index the built-in node's chain, and have it proven from its rows.

    As `indexer verify` does it without a node: every row read, every root recomputed.
    """
    settings(**given)
    with bench_server(database_url) as server:
        report = asyncio.run(
            run_verify_bench(
                VerifyBench(
                    database_url=server.url,
                    blocks={"dense": dense_blocks, "sparse": sparse_blocks},
                    processes=processes,
                    repeat=repeat,
                ),
                say=lambda text: click.echo(text, err=True),
            )
        )
    if as_json:
        click.echo(json.dumps(report.shown()))
    else:
        print_verify_report(report)


def print_verify_report(report: VerifyReport) -> None:
    """Print how many blocks are proven a second."""
    console = Console(width=140)
    table = Table(title="Proven from the stored rows", title_justify="left")
    table.add_column("profile")
    for name in ("processes", "blocks", "blocks/s", "rows/s"):
        table.add_column(name, justify="right")
    for row in report.rows:
        table.add_row(
            row.profile,
            str(row.processes),
            f"{row.blocks:,}",
            f"{row.blocks_a_second:,.0f}",
            f"{row.rows / row.seconds:,.0f}",
        )
    console.print(table)
    shown = ", ".join(f"{name} {value}" for name, value in report.server.items())
    console.print(shown, highlight=False)
