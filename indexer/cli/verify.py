"""``indexer verify``."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from indexer.chain.endpoints import Endpoints
from indexer.cli.heights import optional_height
from indexer.cli.nodes import check_nodes, open_endpoints
from indexer.cli.options import (
    database_options,
    json_option,
    log_options,
    rpc_options,
)
from indexer.cli.runtime import database_url, open_database, settings
from indexer.config import Config
from indexer.db.connection import Database
from indexer.errors import ConfigError
from indexer.ranges import BlockRange
from indexer.services.chainprofile import make_prover
from indexer.services.identity import check_identity
from indexer.services.verify.audit import Progress, audit
from indexer.services.verify.record import Asked
from indexer.services.verify.repair import repair as repair_faults
from indexer.services.verify.report import Report

_LINE_SECONDS = 3.0
_MOST_PROCESSES = 4


@click.command()
@click.option(
    "--from",
    "first",
    callback=optional_height,
    metavar="HEIGHT",
    help="The first height. [default: the lowest planned or stored]",
)
@click.option(
    "--to",
    "end",
    callback=optional_height,
    metavar="HEIGHT",
    help="The first height that is not covered. [default: above the highest]",
)
@click.option(
    "--sample",
    type=click.IntRange(1),
    metavar="N",
    help="Look at N stored blocks, drawn by chance, instead of all.",
)
@click.option(
    "--seed", type=int, metavar="N", help="Draw the same sample. [default: by chance]"
)
@click.option(
    "--repair",
    is_flag=True,
    help="Queue what is missing, and replace what is wrong by the node's.",
)
@click.option(
    "--every-field",
    is_flag=True,
    help="Compare every field with the node's, also what no hash covers.",
)
@click.option("--restart", is_flag=True, help="Do not go on with an unfinished audit.")
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=min(_MOST_PROCESSES, os.cpu_count() or 1),
    show_default=True,
    help="Processes that read and prove.",
)
@rpc_options
@database_options
@log_options
@json_option
def verify(
    first: int | None,
    end: int | None,
    sample: int | None,
    seed: int | None,
    repair: bool,
    every_field: bool,
    restart: bool,
    processes: int,
    as_json: bool,
    **given: object,
) -> None:
    """Prove what is stored from the stored rows alone, and report.

    Gaps, links, counts, and every root recomputed; with --rpc-url also the hashes
    against the node's, and with --every-field all that it gives of each block.
    Exit code 1 where a fault is found, repaired or not. Run again after an
    interruption, it goes on where it was.
    """
    config = settings(**given)
    _check(config, first, end, sample=sample, seed=seed)
    _check_nodes(config, repair=repair, every_field=every_field)
    asked = Asked(first, end, sample, seed, every_field)
    with database_url(config) as url, _progress() as tell:
        report = asyncio.run(
            _verify(config, url, asked, repair, restart, processes, tell)
        )
    if as_json:
        click.echo(report.as_json())
    else:
        click.echo("\n".join(report.lines()))
    sys.exit(0 if report.is_clean else 1)


def _check(
    config: Config,
    first: int | None,
    end: int | None,
    *,
    sample: int | None,
    seed: int | None,
) -> None:
    if end is not None and end <= (first or 0):
        raise ConfigError(
            f"--from {first or 0} --to {end} holds no height: --to is the first height "
            "that is not covered, so it must be above --from"
        )
    if seed is not None and sample is None:
        raise ConfigError("--seed is what --sample is drawn by; give that as well")


def _check_nodes(config: Config, *, repair: bool, every_field: bool) -> None:
    if config.rpc_url:
        check_nodes(config)
    elif repair:
        raise ConfigError("--repair needs a node to fetch from: give --rpc-url")
    elif every_field:
        raise ConfigError("--every-field needs a node to compare with: give --rpc-url")


async def _verify(
    config: Config,
    url: str,
    asked: Asked,
    repair: bool,
    restart: bool,
    processes: int,
    tell: Callable[[Progress], None],
) -> Report:
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(
            open_database(config, url, application="verify")
        )
        endpoints = None
        if config.rpc_url:
            endpoints = await stack.enter_async_context(open_endpoints(config))
            await check_identity(database, endpoints)
        report = await audit(
            database,
            asked,
            endpoints=endpoints,
            processes=processes,
            restart=restart,
            tell=tell,
        )
        if repair and endpoints is not None and not report.is_clean:
            await _repair(database, endpoints, report)
        return report


async def _repair(database: Database, endpoints: Endpoints, report: Report) -> None:
    report.repair = await repair_faults(
        database,
        endpoints,
        await make_prover(database, endpoints, level="auto"),
        faults=report.faults,
        wanted=[BlockRange(first, last) for first, last in report.wanted],
    )
    report.sign()


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """Show how far it is: a bar on a terminal, else a line now and then."""
    if not sys.stderr.isatty():
        yield _Lines().tell
        return
    columns = (
        TextColumn("verify"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:>9,.0f} blocks/s"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[faults]} faults"),
    )
    with Bars(*columns, console=Console(stderr=True)) as bars:
        bar = bars.add_task("verify", total=None, rate=0.0, faults=0)

        def tell(now: Progress) -> None:
            bars.update(
                bar,
                total=now.total,
                completed=now.done,
                rate=now.rate,
                faults=now.faults,
            )

        yield tell


class _Lines:
    """Progress as lines."""

    def __init__(self) -> None:
        self._told_at = time.monotonic()

    def tell(self, now: Progress) -> None:
        if time.monotonic() - self._told_at < _LINE_SECONDS:
            return
        self._told_at = time.monotonic()
        left = f", {now.eta_seconds:.0f} s left" if now.rate else ""
        click.echo(
            f"verified {now.done:,} of {now.total:,} blocks, {now.faults} faults "
            f"({now.rate:,.0f} blocks/s{left})",
            err=True,
        )
