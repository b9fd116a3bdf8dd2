"""``indexer work`` and ``indexer follow``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
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
from indexer.cli.progress import drain_progress
from indexer.cli.runtime import (
    Stopped,
    database_url,
    open_database,
    settings,
    stop_on_signals,
)
from indexer.cli.workers import CHILD_FLAG, read_orders, report, supervise
from indexer.config import Config
from indexer.db.connection import REPLY_TIMEOUT
from indexer.jobs.observer import Ending
from indexer.jobs.running import WorkerStats
from indexer.metrics import Metrics
from indexer.services.endpoints import remembered
from indexer.services.follow import make_follower
from indexer.services.telemetry import (
    contradiction_noted,
    head_noted,
    serve_metrics,
    watch,
    watch_worker,
)
from indexer.services.work import make_worker, pool_size, tune_collector


@click.command()
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Claims in flight. [default: 10]",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    metavar="P",
    help="Processes that share the claims, one a core at most. [default: 1]",
)
@click.option("--drain", is_flag=True, help="End when nothing is left to run.")
@click.option("--lease", metavar="TIME", help="How long a claim holds. [default: 60s]")
@click.option("--heartbeat", metavar="TIME", help="[default: a third of the lease]")
@click.option("--poll-interval", metavar="TIME", help="[default: 30s]")
@click.option("--grace", metavar="TIME", help="To finish in on SIGTERM. [default: 30s]")
@click.option("--job-deadline", metavar="TIME", help="Longest a job may run.")
@click.option(
    "--max-errors", type=click.IntRange(1), help="Errors until it fails. [default: 5]"
)
@click.option(
    "--max-lost-leases",
    type=click.IntRange(1),
    help="Lost leases until it fails. [default: 20]",
)
@click.option("--claim-batch", type=click.IntRange(1), help="Jobs a claim statement.")
@click.option(
    "--chunk-blocks",
    type=click.IntRange(1),
    help="Blocks a transaction. [default: by bytes]",
)
@click.option("--history-retention", metavar="TIME", help="[default: 30d]")
@verify_option
@rpc_options
@finality_option
@listen_option
@metrics_option
@database_options
@log_options
@click.option(CHILD_FLAG, "supervised", is_flag=True, hidden=True)
def work(drain: bool, supervised: bool, **given: object) -> None:
    """Claim jobs and run them until told to stop.

    SIGTERM or Ctrl-C: stop claiming, finish or hand back within the grace time; once
    more: hand back at once. Any number of these may run, on any number of machines.
    With --metrics-port N, the first process serves on N, the next on N + 1.
    """
    if supervised:
        asyncio.run(_work_supervised())
        return
    config = settings(**given)
    check_nodes(config)
    with database_url(config) as url:
        if min(config.processes, config.concurrency) > 1:
            supervisor, stopped = asyncio.run(supervise(config, url, drain))
            claimed, endings = supervisor.claimed, dict(supervisor.endings)
        else:
            stats, stopped = asyncio.run(
                _work(config, url, drain, shown=drain, attend=stop_on_signals)
            )
            claimed = stats.claimed
            endings = {each.value: count for each, count in stats.endings.items()}
    sys.exit(_ended(claimed, endings, stopped, drain=drain))


def _ended(
    claimed: int, endings: Mapping[str, int], stopped: Stopped, *, drain: bool
) -> int:
    """Say how the work ended, and return the exit code."""
    shown = ", ".join(f"{count} {ending}" for ending, count in endings.items() if count)
    click.echo(f"{claimed} claims: {shown or 'nothing to do'}", err=True)
    if drain and stopped.signal is None and endings.get(Ending.FAILED.value):
        return 1
    return stopped.exit_code


async def _work_supervised() -> None:
    config, drain, orders = await read_orders()
    stats, _ = await _work(
        config, config.database_url or "", drain, shown=False, attend=orders.obey
    )
    report(stats)


async def _work(
    config: Config,
    url: str,
    drain: bool,
    *,
    shown: bool,
    attend: Callable[[Callable[[], None]], AbstractContextManager[Stopped]],
) -> tuple[WorkerStats, Stopped]:
    async with (
        open_database(
            config,
            url,
            application="work",
            size=pool_size(config),
            reply_timeout=REPLY_TIMEOUT,
        ) as database,
        open_endpoints(config) as endpoints,
    ):
        metrics = Metrics()
        watch(metrics, database=database, endpoints=endpoints)
        worker = await make_worker(config, database, endpoints, metrics)
        watch_worker(metrics, worker)
        async with (
            remembered(database, endpoints, role="work"),
            serve_metrics(
                metrics, port=config.metrics_port, complaint=worker.complaint
            ),
        ):
            tune_collector()
            with attend(worker.request_stop) as stopped:
                async with drain_progress(database, shown=shown):
                    return await worker.run(drain=drain), stopped


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
            with stop_on_signals(follower.request_stop) as stopped:
                written = await follower.run()
    click.echo(f"{written} blocks stored; the next is {follower.next_height}", err=True)
    return stopped.exit_code
