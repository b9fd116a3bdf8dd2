"""``indexer work``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack
from functools import partial

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
    end_within,
    open_database,
    settings,
    stop_on_signals,
)
from indexer.cli.workers import (
    CHILD_FLAG,
    read_orders,
    report,
    supervise,
    tip_process,
)
from indexer.config import Config
from indexer.db.connection import REPLY_TIMEOUT
from indexer.jobs.lanes import Lanes
from indexer.jobs.observer import Ending
from indexer.jobs.running import WorkerStats
from indexer.metrics import Metrics
from indexer.services.compatibility import schema_watched
from indexer.services.endpoints import remembered
from indexer.services.supervise import Part, Supervisor
from indexer.services.telemetry import (
    serve_metrics,
    watch,
    watch_worker,
)
from indexer.services.tiplane import TipLane
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
            attend = partial(stop_on_signals, end_within=end_within(config))
            stats, stopped = asyncio.run(
                _work(config, url, drain=drain, alone=True, attend=attend)
            )
            claimed, endings = stats.claimed, stats.named_endings()
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
    config, part, drain, orders = await read_orders()
    url = config.database_url or ""
    stats, _ = await _work(config, url, part=part, drain=drain, attend=orders.obey)
    report(stats)


async def _work(
    config: Config,
    url: str,
    *,
    part: Part = Part.FIRST,
    drain: bool,
    alone: bool = False,
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
        lanes = Lanes(only_urgent=part is Part.TIP)
        worker = await make_worker(config, database, endpoints, metrics, lanes=lanes)
        watch_worker(metrics, worker)
        tip = TipLane(database, lanes, _tip_starter(config, url, part))

        def request_stop() -> None:
            worker.request_stop()
            tip.request_stop()

        async with (
            remembered(database, endpoints, role="work"),
            serve_metrics(
                metrics, port=config.metrics_port, complaint=worker.complaint
            ),
        ):
            tune_collector()
            with attend(request_stop) as stopped:
                async with AsyncExitStack() as stack:
                    # A supervisor does this for all of its children.
                    watched = schema_watched(database, request_stop, enabled=alone)
                    await stack.enter_async_context(watched)
                    await stack.enter_async_context(
                        drain_progress(database, shown=alone and drain)
                    )
                    if _has_tip_lane(config, part, drain=drain):
                        await stack.enter_async_context(tip.attended())
                    stats = await worker.run(drain=drain)
                for process in tip.ended:
                    stats.add(process.claimed, process.endings)
                return stats, stopped


def _has_tip_lane(config: Config, part: Part, *, drain: bool) -> bool:
    # A rate that was set is for all processes together, and so low that one is enough.
    return part is not Part.TIP and not drain and config.rpc_rps is None


def _tip_starter(
    config: Config, url: str, part: Part
) -> Callable[[], Supervisor] | None:
    return partial(tip_process, config, url) if part is Part.FIRST else None
