"""``indexer migrate``."""

from __future__ import annotations

import asyncio
import json

import click

from indexer.cli.options import database_options, json_option, log_options
from indexer.cli.runtime import database_url, settings
from indexer.db.migrate import migrate as apply_migrations


@click.command()
@database_options
@log_options
@json_option
def migrate(as_json: bool, **given: object) -> None:
    """Bring the schema up to date; safe from many hosts at once."""
    config = settings(**given)
    with database_url(config) as url:
        applied = asyncio.run(apply_migrations(url, schema=config.db_schema))
    if as_json:
        click.echo(json.dumps({"schema": config.db_schema, "applied": applied}))
    elif applied:
        click.echo(f"schema {config.db_schema}: applied {', '.join(applied)}")
    else:
        click.echo(f"schema {config.db_schema} is up to date")
