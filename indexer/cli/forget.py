"""``indexer forget``."""

from __future__ import annotations

import asyncio
import sys

import click

from indexer.cli.heights import height
from indexer.cli.options import database_options, json_option, log_options
from indexer.cli.runtime import database_url, open_database, settings
from indexer.config import Config
from indexer.errors import ConfigError
from indexer.ranges import BlockRange
from indexer.services.forget import Forgotten
from indexer.services.forget import forget as forget_range


@click.command()
@click.option(
    "--from",
    "first",
    callback=height,
    required=True,
    metavar="HEIGHT",
    help="The first height.",
)
@click.option(
    "--to",
    "end",
    callback=height,
    required=True,
    metavar="HEIGHT",
    help="The first height that is not covered.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@database_options
@log_options
@json_option
def forget(first: int, end: int, yes: bool, as_json: bool, **given: object) -> None:
    """Remove a range of heights with everything that hangs on it.

    Blocks, transactions, withdrawals, receipts, logs, the jobs that stand for them
    and the notes that they were planned. Stop a follower first where the range
    reaches the tip: it would fetch it again.
    """
    config = settings(**given)
    if end <= first:
        raise ConfigError(
            f"--from {first} --to {end} holds no height: --to is the first height that "
            "is not covered, so it must be above --from"
        )
    blocks = BlockRange(first, end - 1)
    if not yes:
        if not sys.stdin.isatty():
            raise ConfigError(
                "forget removes data: say --yes where nobody can be asked"
            )
        click.confirm(f"Remove everything stored of blocks {blocks}?", abort=True)
    with database_url(config) as url:
        gone = asyncio.run(_forget(config, url, blocks))
    if as_json:
        click.echo(gone.as_json())
    else:
        click.echo(
            f"blocks {blocks}: {gone.blocks:,} blocks and what hangs on them removed, "
            f"{gone.jobs} jobs ended or cut"
        )


async def _forget(config: Config, url: str, blocks: BlockRange) -> Forgotten:
    async with open_database(config, url, application="forget") as database:
        return await forget_range(database, blocks=blocks)
