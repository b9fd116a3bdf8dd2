"""Progress of long work on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from indexer.cli.units import duration
from indexer.db.connection import Database
from indexer.errors import IndexerError
from indexer.services.progress import Snapshot, read_progress
from indexer.services.status.pace import Pace, Rates
from indexer.tasks import end_tasks

_TERMINAL_SECONDS = 0.5
_LINE_SECONDS = 3.0


@asynccontextmanager
async def drain_progress(database: Database, *, shown: bool) -> AsyncIterator[None]:
    """Show how far the planned blocks are while the body runs."""
    if not shown:
        yield
        return
    task = asyncio.create_task(
        _bars(database) if sys.stderr.isatty() else _lines(database)
    )
    try:
        yield
    finally:
        await end_tasks(task)


async def _bars(database: Database) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:>9,.0f}/s"),
        TimeRemainingColumn(),
    )
    pace = Pace()
    with Progress(*columns, console=Console(stderr=True)) as bars:
        rows = {
            name: bars.add_task(name, total=None, rate=0.0)
            for name in ("blocks", "events")
        }
        while True:
            now = await _read(database, pace)
            if now is not None:
                rates = now.rates or Rates(0.0, 0.0, 0.0)
                for name, done, rate in (
                    ("blocks", now.blocks, rates.blocks),
                    ("events", now.events, rates.events),
                ):
                    bars.update(
                        rows[name], total=now.planned, completed=done, rate=rate
                    )
            await asyncio.sleep(_TERMINAL_SECONDS)


async def _lines(database: Database) -> None:
    pace = Pace()
    while True:
        now = await _read(database, pace)
        if now is not None and now.planned:
            click.echo(_line(now), err=True)
        await asyncio.sleep(_LINE_SECONDS)


def _line(now: Snapshot) -> str:
    text = (
        f"blocks {now.blocks:,} of {now.planned:,}, events {now.events:,}, "
        f"{now.jobs:,} jobs left"
    )
    if now.rates is not None:
        text += (
            f"; {now.rates.blocks:,.0f} blocks/s, events of "
            f"{now.rates.events:,.0f} blocks/s"
        )
    if now.eta_seconds:
        text += f"; done in {duration(now.eta_seconds)}"
    return text


async def _read(database: Database, pace: Pace) -> Snapshot | None:
    # Progress is a courtesy; the work itself reports an outage.
    try:
        return await read_progress(database, pace)
    except IndexerError:
        return None
