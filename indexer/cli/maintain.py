"""``indexer maintain``."""

from __future__ import annotations

import asyncio
import json

import click

from indexer.cli.options import database_options, json_option, log_options
from indexer.cli.runtime import database_url, open_database, settings
from indexer.config import Config
from indexer.services.maintain import Maintained
from indexer.services.maintain import maintain as one_pass


@click.command()
@click.option(
    "--history-retention", metavar="TIME", help="Keep this much. [default: 30d]"
)
@click.option("--lease", metavar="TIME", help="That of the workers. [default: 60s]")
@click.option(
    "--max-lost-leases",
    type=click.IntRange(1),
    help="Lost leases until a job fails. [default: 20]",
)
@database_options
@log_options
@json_option
def maintain(as_json: bool, **given: object) -> None:
    """Do one pass of what workers also do on timers.

    Takes back expired leases, makes and drops partitions, moves failed jobs and drops
    history beyond the retention, retires entries of dead workers, and analyzes the
    partitioned tables. For cron, where no worker runs all the time. Claims past their
    lease get one lease more before they are taken back.
    """
    config = settings(**given)
    with database_url(config) as url:
        done = asyncio.run(_maintain(config, url))
    if as_json:
        click.echo(json.dumps(done._asdict()))
    else:
        click.echo("\n".join(_lines(done)))


async def _maintain(config: Config, url: str) -> Maintained:
    async with open_database(config, url, application="maintain") as database:
        return await one_pass(database, config)


def _lines(done: Maintained) -> list[str]:
    return [
        f"{done.jobs_reaped} expired claims taken back, {done.jobs_failed} of them "
        "failed for good",
        f"{done.jobs_aged_out} failed jobs moved to history",
        f"history partitions: {_named(done.history_made)} made, "
        f"{_named(done.history_dropped)} dropped",
        f"chain partitions: {_named(done.chain_made)} made",
        f"workers retired: {_named(done.workers_retired)}",
        f"analyzed: {_named(done.analyzed)}",
    ]


def _named(names: list[str]) -> str:
    return ", ".join(names) if names else "none"
