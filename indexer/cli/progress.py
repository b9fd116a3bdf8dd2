"""Progress of long work on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from indexer.db.connection import Database
from indexer.errors import IndexerError
from indexer.services.progress import Snapshot, read_progress

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
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _bars(database: Database) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:>9,.0f}/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        rows = {
            name: bars.add_task(name, total=None, rate=0.0)
            for name in ("blocks", "events")
        }
        before: Snapshot | None = None
        while True:
            now = await _read(database)
            if now is not None:
                for name, done in (("blocks", now.blocks), ("events", now.events)):
                    bars.update(
                        rows[name],
                        total=now.planned,
                        completed=done,
                        rate=_rate(before, now, name),
                    )
                before = now
            await asyncio.sleep(_TERMINAL_SECONDS)


async def _lines(database: Database) -> None:
    before: Snapshot | None = None
    while True:
        now = await _read(database)
        if now is not None and now.planned:
            click.echo(
                f"blocks {now.blocks:,} of {now.planned:,}, events {now.events:,} "
                f"({_rate(before, now, 'blocks'):,.0f} blocks/s, "
                f"{now.pending + now.running} jobs left)",
                err=True,
            )
            before = now
        await asyncio.sleep(_LINE_SECONDS)


async def _read(database: Database) -> Snapshot | None:
    # Progress is a courtesy; the work itself reports an outage.
    try:
        return await read_progress(database)
    except IndexerError:
        return None


def _rate(before: Snapshot | None, now: Snapshot, name: str) -> float:
    if before is None or now.at <= before.at:
        return 0.0
    done: int = getattr(now, name) - getattr(before, name)
    return max(0.0, done / (now.at - before.at))
