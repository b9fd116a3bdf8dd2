"""``indexer dashboard``."""

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
from indexer.services.dashboard import Dashboard
from indexer.services.telemetry import serve

_LOOPBACK = "127.0.0.1"


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    default=8080,
    show_default=True,
    help="Serve the page on this port.",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    default=_LOOPBACK,
    show_default=True,
    help="Listen on this address; on others than this, whoever reaches it may look.",
)
@database_options
@log_options
def dashboard(port: int, host: str, **given: object) -> None:
    """Serve a page: the chain's map, throughput, queue, nodes and database.

    It only reads, needs no network but the database, and asks nobody who they are:
    put something that does in front of it before others may reach it.
    """
    config = settings(**given)
    with database_url(config) as url:
        code = asyncio.run(_serve(config, url, port, host))
    sys.exit(code)


async def _serve(config: Config, url: str, port: int, host: str) -> int:
    stop = asyncio.Event()
    async with open_database(config, url, application="dashboard") as database:
        page = Dashboard(database, loopback=host in (_LOOPBACK, "localhost", "::1"))
        async with serve(
            page.application(), port=port, host=host, flag="--port"
        ) as bound:
            named = f"[{host}]" if ":" in host else host
            click.echo(f"the page is at http://{named}:{bound}/", err=True)
            with stop_on_signals(stop.set, end_within=end_within(config)) as stopped:
                await stop.wait()
    return stopped.exit_code
