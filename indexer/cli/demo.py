"""``indexer demo`` and ``indexer devnode``."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from datetime import timedelta

import click
from rich.console import Console
from rich.table import Table

from indexer.cli.nodes import check_nodes, open_endpoints
from indexer.cli.options import database_options, log_options, rpc_options
from indexer.cli.progress import drain_progress
from indexer.cli.runtime import database_url, open_database, settings
from indexer.cli.status import print_status
from indexer.config import Config
from indexer.devnode.faults import KINDS, FaultSchedule, parse_fault
from indexer.devnode.profiles import PROFILES
from indexer.devnode.server import DevnodeConfig, serve
from indexer.errors import ConfigError
from indexer.services.demo import Answer, demo_node, run_demo
from indexer.services.status import read_status
from indexer.services.work import pool_size, tune_collector

# Whoever kills the demo and runs it again sits before it and waits.
_LEASE = timedelta(seconds=10)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8545,
    show_default=True,
    help="0 takes a free one.",
)
@click.option(
    "--profile", type=click.Choice(list(PROFILES)), default="sparse", show_default=True
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--chain-id", type=click.IntRange(1), default=1337, show_default=True)
@click.option(
    "--height",
    type=click.IntRange(0),
    default=20_000,
    show_default=True,
    help="Where the head starts.",
)
@click.option(
    "--block-time",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    metavar="SECONDS",
    help="A new block this often; 0 is never.",
)
@click.option(
    "--finality-depth",
    type=click.IntRange(0),
    default=64,
    show_default=True,
    help="How far the finalized tag trails the head.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="KIND[:FIELD=VALUE,…]",
    help="What goes wrong, such as lag:count=25; repeatable.",
)
@click.option(
    "--fault-rate",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="The share of requests that meet one of the faults, by chance; all kinds "
    "that a client gets over where none is named. 0: the faults named are always on.",
)
@click.option(
    "--fault-seed",
    type=int,
    default=0,
    show_default=True,
    help="What the chance depends on.",
)
@click.option("--list-faults", is_flag=True, help="Say what kinds there are, and exit.")
@log_options
def devnode(
    host: str,
    port: int,
    profile: str,
    seed: int,
    chain_id: int,
    height: int,
    block_time: float,
    finality_depth: int,
    faults: tuple[str, ...],
    fault_rate: float,
    fault_seed: int,
    list_faults: bool,
    **given: object,
) -> None:
    """Run a deterministic EVM node for demos, tests and benchmarks."""
    if list_faults:
        for name, kind in KINDS.items():
            click.echo(f"{name:24}{kind.doc}")
        return
    settings(**given)
    try:
        named = tuple(parse_fault(text) for text in faults)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    schedule = None
    if fault_rate:
        schedule = FaultSchedule(seed=fault_seed, rate=fault_rate, kinds=named)
    config = DevnodeConfig(
        host=host,
        port=port,
        profile=profile,
        seed=seed,
        chain_id=chain_id,
        height=height,
        block_time=block_time,
        finality_depth=finality_depth,
        faults=() if schedule else named,
        schedule=schedule,
    )

    def ready(url: str) -> None:
        # Walking through all the hashes of a long chain takes tens of milliseconds.
        tune_collector()
        click.echo(url)

    try:
        asyncio.run(serve(config, on_ready=ready))
    except KeyboardInterrupt:
        click.echo("stopped", err=True)


@click.command()
@click.option(
    "--blocks",
    type=click.IntRange(1, 10_000_000),
    default=20_000,
    show_default=True,
    help="How many blocks to backfill.",
)
@click.option(
    "--tip-blocks",
    type=click.IntRange(0, 1000),
    default=5,
    show_default=True,
    help="How many new blocks to follow.",
)
@rpc_options
@database_options
@log_options
def demo(blocks: int, tip_blocks: int, **given: object) -> None:
    """Show the whole thing with nothing but Python.

    An embedded PostgreSQL and the built-in node, unless --database-url and --rpc-url
    name others: plan, work, follow the tip, then some answers in SQL.
    """
    config = settings(**{"log_format": "text", **_given(given)})
    if "lease" not in config.model_fields_set:
        config = config.model_copy(update={"lease": _LEASE})
    if not config.verbose:
        # One line a job is for operators; here the progress says enough.
        logging.getLogger("indexer.jobs").setLevel(logging.WARNING)
    if config.rpc_url:
        check_nodes(config)
    with database_url(config) as url:
        asyncio.run(_demo(config, url, blocks, tip_blocks))


def _given(flags: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in flags.items() if value is not None}


async def _demo(config: Config, url: str, blocks: int, tip_blocks: int) -> None:
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(
            open_database(config, url, application="demo", size=pool_size(config))
        )
        if not config.rpc_url:
            node = await stack.enter_async_context(demo_node(database, blocks=blocks))
            click.echo(f"built-in node at {node}", err=True)
            config = config.model_copy(update={"rpc_url": (node,)})
        endpoints = await stack.enter_async_context(open_endpoints(config))
        answers = await run_demo(
            config,
            database,
            endpoints,
            blocks=blocks,
            tip_blocks=tip_blocks,
            say=lambda text: click.echo(text, err=True),
            progress=lambda: drain_progress(database, shown=True),
        )
        print_status(await read_status(database))
    for answer in answers:
        _print_answer(answer)


def _print_answer(answer: Answer) -> None:
    console = Console()
    console.print(f"\n[bold]{answer.question}[/bold]")
    console.print(answer.sql, style="dim", markup=False, highlight=False)
    table = Table(*answer.columns)
    for row in answer.rows:
        table.add_row(*("" if value is None else f"{value}" for value in row))
    console.print(table)
