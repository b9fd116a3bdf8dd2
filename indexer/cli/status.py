"""``indexer status``."""

from __future__ import annotations

import asyncio
import json

import click

from indexer.cli.options import database_options, json_option, log_options
from indexer.cli.runtime import database_url, open_database, settings
from indexer.cli.tables import print_status
from indexer.config import Config
from indexer.errors import TransientError
from indexer.services.status import Pace, read_status

__all__ = ["print_status", "status"]

_WATCH_SECONDS = 2.0


@click.command()
@click.option("--watch", is_flag=True, help="Show it again every two seconds.")
@database_options
@log_options
@json_option
def status(watch: bool, as_json: bool, **given: object) -> None:
    """Show progress, gaps, queue, failures, workers, the tip and the database.

    Fast at any size: what would take long to count is estimated, and says so.
    """
    config = settings(**given)
    with database_url(config) as url:
        if watch:
            asyncio.run(_watch(config, url, as_json))
        else:
            asyncio.run(_show(config, url, as_json))


async def _show(config: Config, url: str, as_json: bool) -> None:
    async with open_database(config, url, application="status") as database:
        found = await read_status(database)
    if as_json:
        click.echo(json.dumps(found, default=str))
    else:
        print_status(found)


async def _watch(config: Config, url: str, as_json: bool) -> None:
    pace = Pace()
    async with open_database(config, url, application="status") as database:
        while True:
            try:
                found = await read_status(database, pace=pace)
            except TransientError as error:
                # It comes back by itself, and so does this.
                click.echo(f"{error}; trying again", err=True)
            else:
                if as_json:
                    click.echo(json.dumps(found, default=str))
                else:
                    click.clear()
                    print_status(found)
            await asyncio.sleep(_WATCH_SECONDS)
