"""``indexer follow``."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

import click

from indexer.cli.nodes import check_nodes, open_endpoints
from indexer.cli.options import (
    database_options,
    finality_option,
    listen_option,
    log_options,
    metrics_option,
    rpc_options,
    verify_option,
)
from indexer.cli.runtime import (
    database_url,
    end_within,
    open_database,
    settings,
    stop_on_signals,
)
from indexer.config import Config
from indexer.db.connection import REPLY_TIMEOUT
from indexer.metrics import Metrics
from indexer.services.compatibility import schema_watched
from indexer.services.endpoints import remembered
from indexer.services.follow import make_follower
from indexer.services.telemetry import (
    contradiction_noted,
    head_noted,
    serve_metrics,
    watch,
)
from indexer.services.work import tune_collector


def _start(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> int | str | None:
    if value is None or value in ("finalized", "latest"):
        return value
    if value.isascii() and value.isdigit():
        return int(value)
    raise click.BadParameter(f"{value!r} is no height, 'finalized' or 'latest'")


@click.command()
@click.option(
    "--from",
    "start",
    callback=_start,
    metavar="HEIGHT|finalized|latest",
    help="Where to begin. [default: behind what is stored or planned, else finalized]",
)
@click.option(
    "--until",
    type=click.IntRange(0, 2**62),
    metavar="HEIGHT",
    help="End when this height is stored.",
)
@click.option("--lease", metavar="TIME", help="Until a standby takes over.")
@verify_option
@rpc_options
@finality_option
@listen_option
@metrics_option
@database_options
@log_options
def follow(start: int | str | None, until: int | None, **given: object) -> None:
    """Keep the tip: store each new block with its job in one transaction.

    A second one on the same schema stands by and takes over when the first is gone.
    """
    config = settings(**given)
    check_nodes(config)
    with database_url(config) as url:
        code = asyncio.run(_follow(config, url, start, until))
    sys.exit(code)


async def _follow(
    config: Config, url: str, start: int | str | None, until: int | None
) -> int:
    async with (
        open_database(
            config, url, application="follow", reply_timeout=REPLY_TIMEOUT
        ) as database,
        open_endpoints(config) as endpoints,
    ):
        metrics = Metrics()
        watch(metrics, database=database, endpoints=endpoints)
        follower = await make_follower(
            database,
            endpoints,
            lease=min(config.lease, timedelta(seconds=15)),
            verify=config.verify,
            finality_depth=config.finality_depth,
            start=start,  # type: ignore[arg-type]
            until=until,
            metrics=metrics,
        )
        async with (
            remembered(database, endpoints, role="follow"),
            head_noted(database, metrics),
            contradiction_noted(database),
            serve_metrics(
                metrics, port=config.metrics_port, complaint=follower.complaint
            ),
        ):
            with stop_on_signals(
                follower.request_stop, end_within=end_within(config)
            ) as stopped:
                async with schema_watched(database, follower.request_stop):
                    # A collection in between is what a new block would wait for.
                    tune_collector()
                    written = await follower.run()
    click.echo(f"{written} blocks stored; the next is {follower.next_height}", err=True)
    return stopped.exit_code
