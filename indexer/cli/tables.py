"""The status as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from indexer.cli.databasetable import database_rows
from indexer.cli.units import duration

_Rows = Iterable[tuple[str, ...]]


def print_status(found: dict[str, Any]) -> None:
    """Print the status on stdout; sections with nothing to say are left out."""
    console = Console()
    console.print(_facts(_title(found), _overview(found)))
    queue = ("kind", "pending", "running", "failed")
    _print_table(console, "Queue", queue, _queue_rows(found))
    reasons = ("jobs", "kind", "reason")
    _print_table(console, "Failed jobs", reasons, _failed_rows(found))
    for each in found["failed"]:
        # On a line of its own, however long, for whoever copies it.
        console.print(f"to retry: {each['retry']}", markup=False, soft_wrap=True)
    workers = ("name", "claims", "up", "seen", "holds")
    _print_table(console, "Workers", workers, _worker_rows(found))
    nodes = ("name", "state", "limits", "last error")
    _print_table(console, "Nodes", nodes, _endpoint_rows(found))
    console.print(_facts("Database", database_rows(found["database"])))


def _print_table(
    console: Console, title: str, columns: tuple[str, ...], rows: _Rows
) -> None:
    listed = list(rows)
    if not listed:
        return
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in listed:
        table.add_row(*(escape(cell) for cell in row))
    console.print(table)


def _facts(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    table = Table(show_header=False, title=title, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, escape(text))
    return table


def _title(found: dict[str, Any]) -> str:
    held = found["chain"]
    name = f"chain {held['chain_id']}" if held else "no chain yet"
    return f"schema {found['schema']}, {name}"


def _overview(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    progress, tip, queue = found["progress"], found["tip"], found["queue"]
    yield "planned", f"{progress['planned_blocks']:,} blocks"
    yield (
        "stored",
        f"{progress['stored_blocks']:,} blocks, events of {progress['stored_events']:,}"
        f"{_percent(progress)}",
    )
    yield (
        "proven",
        f"{progress['proven_blocks']:,} blocks, events of "
        f"{progress['proven_events']:,}",
    )
    yield "rate", _rate(progress)
    yield "gaps", _gaps(progress)
    yield "tip", _tip(tip)
    yield "follower", tip["follower"] or "nobody follows the tip"
    if tip["contradiction"]:
        yield "contradiction", tip["contradiction"]
    about = "about " if queue["pending_estimated"] else ""
    least = "at least " if queue["failed_at_least"] else ""
    yield (
        "queue",
        f"{about}{queue['pending']:,} pending, {queue['running']:,} running, "
        f"{least}{queue['failed']:,} failed",
    )
    yield "waiting", _waiting(queue)
    yield "reading", queue["reading"]
    yield "last hour", _last_hour(queue)
    if queue["unknown_kinds"]:
        kinds = ", ".join(f"{k} ({n})" for k, n in queue["unknown_kinds"].items())
        yield "unknown kinds", f"{kinds}: no worker of this program runs them"


def _percent(progress: dict[str, Any]) -> str:
    planned = progress["planned_blocks"]
    if not planned:
        return ""
    done = progress["planned_stored_blocks"] + progress["planned_stored_events"]
    return f" ({100 * done / (2 * planned):.1f} % of what is planned)"


def _rate(progress: dict[str, Any]) -> str:
    rate, eta = progress["rate"], progress["eta_seconds"]
    text = (
        f"{rate['blocks_per_second']:,.0f} blocks/s, events of "
        f"{rate['events_per_second']:,.0f} blocks/s"
    )
    if rate["estimated"]:
        text = f"about {text}"
    if rate["window_seconds"]:
        text += f" over {duration(rate['window_seconds'])}"
    if not progress["planned_blocks"]:
        return f"{text}; nothing is planned (indexer plan)"
    if eta == 0:
        return f"{text}; all that is planned is stored"
    if eta is None:
        return f"{text}; nothing moves, so there is no saying when it is done"
    return f"{text}; done in {duration(eta)}, at {progress['eta_at']}"


def _gaps(progress: dict[str, Any]) -> str:
    audited = progress["audited_at"]
    as_of = f"as of the audit of {audited}" if audited else "never audited"
    if not progress["planned_blocks"]:
        return "none, as nothing is planned"
    if not progress["missing_blocks"]:
        return f"none among the planned blocks ({as_of})"
    listed = ", ".join(f"{each['from']}..{each['to']}" for each in progress["gaps"])
    more = progress["gaps_total"] - len(progress["gaps"])
    return (
        f"{progress['missing_blocks']:,} planned blocks not stored: {listed}"
        f"{f' and {more} more' if more > 0 else ''} ({as_of})"
    )


def _tip(tip: dict[str, Any]) -> str:
    if tip["highest_block"] is None:
        return "no block is stored"
    text = f"block {tip['highest_block']:,}"
    if tip["age_seconds"] is not None:
        text += f", {duration(tip['age_seconds'])} old"
    if tip["lag_blocks"] is not None:
        text += f", {tip['lag_blocks']:,} behind the node's {tip['head_block']:,}"
    if tip["reorgs_last_day"]:
        text += (
            f"; {tip['reorgs_last_day']} reorganisations within a day, "
            f"{tip['deepest_reorg_last_day']} blocks at most"
        )
    return text


def _waiting(queue: dict[str, Any]) -> str:
    oldest = queue["oldest_pending_seconds"]
    waits = "nothing waits" if oldest is None else f"the oldest for {duration(oldest)}"
    takes = "; ".join(
        f"{kind} takes {each['median_seconds']:.2f} s "
        f"(at most {each['longest_seconds']:.2f} s)"
        for kind, each in queue["durations"].items()
    )
    looks = f"finding it took {1000 * queue['probe_seconds']:.1f} ms"
    return "; ".join(part for part in (waits, takes, looks) if part)


def _last_hour(queue: dict[str, Any]) -> str:
    about = "about " if queue["last_hour_estimated"] else ""
    return (
        f"{about}{queue['finished_last_hour']:,} jobs finished, "
        f"{queue['errors_last_hour']:,} errors, "
        f"{queue['expired_leases_last_hour']:,} leases expired, "
        f"{100 * queue['retry_rate']:.1f} % of executions repeated, "
        f"{100 * queue['failure_rate']:.1f} % of jobs failed"
    )


def _queue_rows(found: dict[str, Any]) -> _Rows:
    about = "~" if found["queue"]["pending_estimated"] else ""
    for kind, states in found["queue"]["kinds"].items():
        yield (
            kind,
            f"{about}{states.get('pending', 0):,}",
            f"{states.get('running', 0):,}",
            f"{states.get('failed', 0):,}",
        )


def _failed_rows(found: dict[str, Any]) -> _Rows:
    for each in found["failed"]:
        yield f"{each['jobs']:,}", each["kind"], each["reason"]


def _worker_rows(found: dict[str, Any]) -> _Rows:
    for each in found["workers"]:
        yield (
            each["name"],
            f"{each['claims']} of {each['concurrency']}",
            duration(each["uptime_seconds"]),
            f"{duration(each['last_seen_seconds'])} ago",
            _holds(each["holds"]),
        )


def _holds(claims: list[dict[str, Any]]) -> str:
    shown = [
        f"{each['work']} ({each['kind']}, {duration(each['seconds'])})"
        for each in claims[:3]
    ]
    if len(claims) > len(shown):
        shown.append(f"{len(claims) - len(shown)} more")
    return ", ".join(shown)


def _endpoint_rows(found: dict[str, Any]) -> _Rows:
    for each in found["endpoints"]:
        limits = ", ".join(f"{k} {v}" for k, v in (each["limits"] or {}).items())
        yield each["name"], each["state"], limits, each["last_error"] or ""
