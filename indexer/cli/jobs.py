"""``indexer jobs list|show|retry|cancel``."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table

from indexer.cli.options import database_options, json_option, log_options
from indexer.cli.runtime import database_url, open_database, settings
from indexer.db.connection import Connection
from indexer.errors import ConfigError
from indexer.jobs import backlog
from indexer.jobs.backlog import JobFilter, JobRecord

_Result = TypeVar("_Result")


@click.group()
def jobs() -> None:
    """List, show, retry and cancel jobs."""


def _run(
    given: dict[str, Any], action: Callable[[Connection], Awaitable[_Result]]
) -> _Result:
    config = settings(**given)

    async def act(url: str) -> _Result:
        async with (
            open_database(config, url, application="jobs") as database,
            database.connection() as conn,
        ):
            return await action(conn)

    with database_url(config) as url:
        return asyncio.run(act(url))


@jobs.command(name="list")
@click.option("--kind", help="Only this kind.")
@click.option(
    "--status",
    type=click.Choice(["pending", "running", "done", "failed", "cancelled"]),
    help="Only these.",
)
@click.option("--error", metavar="TEXT", help="Only with this in their last error.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True)
@database_options
@log_options
@json_option
def list_(
    kind: str | None,
    status: str | None,
    error: str | None,
    limit: int,
    as_json: bool,
    **given: object,
) -> None:
    """List jobs, the newest first, finished ones included."""
    which = JobFilter(kind=kind, status=status, error=error)
    found = _run(given, lambda conn: backlog.list_jobs(conn, which=which, limit=limit))
    if as_json:
        click.echo(json.dumps([_as_json(each) for each in found]))
        return
    table = Table("id", "kind", "payload", "status", "attempts", "worker", "last error")
    for each in found:
        table.add_row(
            str(each.id),
            each.kind,
            json.dumps(each.payload),
            each.status,
            str(each.attempts),
            each.locked_by or "",
            each.last_error or "",
        )
    Console().print(table)


@jobs.command()
@click.argument("job_id", type=int)
@database_options
@log_options
@json_option
def show(job_id: int, as_json: bool, **given: object) -> None:
    """Show one job with everything known of it."""
    found = _run(given, lambda conn: backlog.show_job(conn, job_id=job_id))
    if found is None:
        click.echo(f"error: there is no job {job_id}, nor is it in history", err=True)
        sys.exit(1)
    if as_json:
        click.echo(json.dumps(_as_json(found)))
        return
    table = Table(show_header=False)
    for name, value in _as_json(found).items():
        table.add_row(name, value if isinstance(value, str) else json.dumps(value))
    Console().print(table)


def _which(
    ids: tuple[int, ...], kind: str | None, error: str | None, verb: str
) -> JobFilter:
    if not ids and kind is None and error is None:
        raise ConfigError(f"say which jobs to {verb}: their ids, --kind or --error")
    return JobFilter(ids=ids or None, kind=kind, error=error)


_selection = [
    click.argument("ids", nargs=-1, type=int),
    click.option("--kind", help="All of this kind."),
    click.option("--error", metavar="TEXT", help="All with this in their last error."),
]


def _selects(command: Callable[..., None]) -> Callable[..., None]:
    for each in reversed(_selection):
        command = each(command)
    return command


@jobs.command()
@_selects
@database_options
@log_options
@json_option
def retry(
    ids: tuple[int, ...],
    kind: str | None,
    error: str | None,
    as_json: bool,
    **given: object,
) -> None:
    """Queue failed jobs again; they go on behind their last committed chunk."""
    which = _which(ids, kind, error, "retry")
    retried = _run(given, lambda conn: backlog.retry_failed(conn, which=which))
    if as_json:
        click.echo(json.dumps({"retried": retried}))
    else:
        click.echo(f"{retried} failed jobs are pending again")
    if ids and not retried:
        sys.exit(1)


@jobs.command()
@_selects
@database_options
@log_options
@json_option
def cancel(
    ids: tuple[int, ...],
    kind: str | None,
    error: str | None,
    as_json: bool,
    **given: object,
) -> None:
    """End jobs: waiting and failed ones now, running ones by their worker."""
    which = _which(ids, kind, error, "cancel")
    done = _run(given, lambda conn: backlog.cancel(conn, which=which))
    if as_json:
        click.echo(json.dumps(done._asdict()))
    else:
        click.echo(
            f"{done.ended} jobs cancelled; {done.requested} running ones are told to "
            "end at their worker's next heartbeat"
        )
    if ids and not (done.ended or done.requested):
        sys.exit(1)


def _as_json(record: JobRecord) -> dict[str, Any]:
    return {
        name: value.isoformat() if hasattr(value, "isoformat") else value
        for name, value in record._asdict().items()
    }
