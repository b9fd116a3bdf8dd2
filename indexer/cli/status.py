"""``indexer status``."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from indexer.cli.options import database_options, json_option, log_options
from indexer.cli.runtime import database_url, open_database, settings
from indexer.config import Config
from indexer.services.status import read_status

_WATCH_SECONDS = 2.0


@click.command()
@click.option("--watch", is_flag=True, help="Show it again every two seconds.")
@database_options
@log_options
@json_option
def status(watch: bool, as_json: bool, **given: object) -> None:
    """Show progress, gaps, queue, failures, workers and the tip."""
    config = settings(**given)
    with database_url(config) as url:
        while True:
            found = asyncio.run(_read(config, url))
            if as_json:
                click.echo(json.dumps(found, default=str))
            else:
                if watch:
                    click.clear()
                print_status(found)
            if not watch:
                return
            time.sleep(_WATCH_SECONDS)


async def _read(config: Config, url: str) -> dict[str, Any]:
    async with open_database(config, url, application="status") as database:
        return await read_status(database)


def print_status(found: dict[str, Any]) -> None:
    """Print the status as tables on stdout."""
    console = Console()
    console.print(_overview(found))
    for title, columns, rows in (
        ("Queue", ("kind", "pending", "running", "failed"), _queue_rows(found)),
        ("Failed jobs", ("jobs", "kind", "reason", "retry"), _failed_rows(found)),
        ("Workers", ("name", "claims", "up", "seen"), _worker_rows(found)),
    ):
        listed = list(rows)
        if listed:
            table = Table(*columns, title=title, title_justify="left")
            for row in listed:
                table.add_row(*row)
            console.print(table)


def _overview(found: dict[str, Any]) -> Table:
    progress, tip, queue = found["progress"], found["tip"], found["queue"]
    table = Table(show_header=False, title=_title(found), title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("planned", f"{progress['planned_blocks']:,} blocks")
    table.add_row(
        "stored",
        f"{progress['stored_blocks']:,} blocks, events of {progress['stored_events']:,}"
        f"{_percent(progress)}",
    )
    table.add_row("gaps", _gaps(progress))
    table.add_row("highest", _highest(tip))
    table.add_row("follower", tip["follower"] or "nobody follows the tip")
    table.add_row(
        "queue",
        f"{queue['pending']:,} pending, {queue['running']:,} running, "
        f"{queue['failed']:,} failed",
    )
    table.add_row("reading", queue["reading"])
    if queue["unknown_kinds"]:
        kinds = ", ".join(f"{k} ({n})" for k, n in queue["unknown_kinds"].items())
        table.add_row("unknown kinds", f"{kinds}: no worker of this program runs them")
    return table


def _title(found: dict[str, Any]) -> str:
    held = found["chain"]
    name = f"chain {held['chain_id']}" if held else "no chain yet"
    return f"schema {found['schema']}, {name}"


def _percent(progress: dict[str, Any]) -> str:
    planned = progress["planned_blocks"]
    if not planned:
        return ""
    done = progress["planned_stored_blocks"] + progress["planned_stored_events"]
    return f" ({100 * done / (2 * planned):.1f} % of what is planned)"


def _gaps(progress: dict[str, Any]) -> str:
    audited = progress["audited_at"]
    as_of = f"as of the audit of {audited}" if audited else "never audited"
    if not progress["missing_blocks"]:
        return f"none among the planned blocks ({as_of})"
    listed = ", ".join(f"{each['from']}..{each['to']}" for each in progress["gaps"])
    more = progress["gaps_total"] - len(progress["gaps"])
    return (
        f"{progress['missing_blocks']:,} planned blocks not stored: {listed}"
        f"{f' and {more} more' if more > 0 else ''} ({as_of})"
    )


def _highest(tip: dict[str, Any]) -> str:
    if tip["highest_block"] is None:
        return "no block is stored"
    age = tip["age_seconds"]
    old = f", {_duration(age)} old" if age is not None else ""
    return f"block {tip['highest_block']:,}{old}"


def _queue_rows(found: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    for kind, states in found["queue"]["kinds"].items():
        yield (
            kind,
            *(f"{states.get(each, 0):,}" for each in ("pending", "running", "failed")),
        )


def _failed_rows(found: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    for each in found["failed"]:
        yield str(each["jobs"]), each["kind"], each["reason"], each["retry"]


def _worker_rows(found: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    for each in found["workers"]:
        yield (
            each["name"],
            f"{each['claims']} of {each['concurrency']}",
            _duration(each["uptime_seconds"]),
            f"{_duration(each['last_seen_seconds'])} ago",
        )


def _duration(seconds: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if abs(seconds) >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.0f} s"
