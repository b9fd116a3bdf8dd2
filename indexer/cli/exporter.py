"""``indexer exporter``."""

from __future__ import annotations

import asyncio
import sys

import click

from indexer.cli.options import database_options, log_options
from indexer.cli.runtime import (
    database_url,
    end_within,
    open_database,
    settings,
    stop_on_signals,
)
from indexer.config import Config
from indexer.services.exporter import Exporter
from indexer.services.telemetry import probes, serve


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    required=True,
    help="Serve /metrics, /health and /ready on this port.",
)
@click.option(
    "--host", metavar="ADDRESS", help="Listen on this address. [default: all]"
)
@database_options
@log_options
def exporter(port: int, host: str | None, **given: object) -> None:
    """Serve metrics of the queue and the database, once a database.

    Workers and followers serve their own with --metrics-port. The role it connects as
    needs to read the schema, and pg_read_all_stats to see others' sessions.
    """
    config = settings(**given)
    with database_url(config) as url:
        code = asyncio.run(_export(config, url, port, host))
    sys.exit(code)


async def _export(config: Config, url: str, port: int, host: str | None) -> int:
    stop = asyncio.Event()
    async with open_database(config, url, application="exporter") as database:
        exporter = Exporter(database)
        app = probes(exporter.exposition, exporter.complaint)
        async with (
            exporter.running(),
            serve(app, port=port, host=host, flag="--port") as bound,
        ):
            click.echo(f"metrics on port {bound}", err=True)
            with stop_on_signals(stop.set, end_within=end_within(config)) as stopped:
                await stop.wait()
    return stopped.exit_code
