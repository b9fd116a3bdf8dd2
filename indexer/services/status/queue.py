"""The queue: how much waits, for how long, how long jobs take, what goes wrong."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from indexer.db.connection import Connection
from indexer.db.queries import load
from indexer.jobs.claims import pending_lanes
from indexer.log import redact
from indexer.services.kinds import INDEX_BLOCKS, INDEX_EVENTS
from indexer.services.status.lately import Lately

_QUERIES = load("status")
_PAGES = _QUERIES["queue_pages"]
_SAMPLED = _QUERIES["sampled_pending"]
_PENDING = _QUERIES["counted_pending"]
_RUNNING = _QUERIES["counted_running"]
_FAILED = _QUERIES["counted_failed"]
_REASONS = _QUERIES["failed_reasons"]

KNOWN_KINDS = (INDEX_BLOCKS, INDEX_EVENTS)

# Up to this size (64 MiB) counting every pending job takes milliseconds.
_COUNTED_PAGES = 8192
# And of larger tables this much is looked at: some 100,000 jobs.
_SAMPLED_PAGES = 2048
_FAILED_LIMIT = 10_000
# A part of a reason that is shorter names too much to retry by.
_SHORTEST_ERROR_PART = 8


class Counts(NamedTuple):
    """How many jobs of each kind are in each state.

    ``estimated``: pending ones are. Failed ones are counted up to a limit.
    """

    pending: dict[str, int]
    running: dict[str, int]
    failed: dict[str, int]
    estimated: bool


async def count_queue(conn: Connection) -> Counts:
    """Count the queue in milliseconds, however large it is."""
    pending, estimated = await _pending(conn)
    return Counts(
        pending=pending,
        running=dict(await _RUNNING.rows(conn)),
        failed=dict(await _FAILED.rows(conn, limit=_FAILED_LIMIT)),
        estimated=estimated,
    )


async def read_queue(conn: Connection, *, lately: Lately) -> dict[str, Any]:
    """Return counts, waits, durations and what goes wrong."""
    pending, running, failed, estimated = await count_queue(conn)
    states = {"pending": pending, "running": running, "failed": failed}
    kinds = {
        kind: {state: jobs[kind] for state, jobs in states.items() if kind in jobs}
        for kind in sorted({*pending, *running, *failed})
    }
    asked_at = time.monotonic()
    lanes = {
        lane.priority: -lane.due_in.total_seconds()
        for lane in await pending_lanes(conn)
        if lane.due_in <= timedelta(0)
    }
    probe = time.monotonic() - asked_at
    waiting = max(lanes.values(), default=None)
    return {
        "kinds": kinds,
        **{state: sum(jobs.values()) for state, jobs in states.items()},
        "pending_estimated": estimated,
        "failed_at_least": sum(failed.values()) >= _FAILED_LIMIT,
        "oldest_pending_seconds": waiting,
        "oldest_pending_by_priority": lanes,
        # The claim's own index read from its head, dead entries and all.
        "probe_seconds": probe,
        "durations": {
            kind: {
                "finished_last_hour": round(each.done * lately.scale),
                "median_seconds": each.median,
                "longest_seconds": each.longest,
            }
            for kind, each in sorted(lately.kinds.items())
            if each.done and each.median is not None
        },
        "reading": _reading(waiting, lately, pending, sum(running.values())),
        **_rates(lately),
        "unknown_kinds": {
            kind: jobs for kind, jobs in pending.items() if kind not in KNOWN_KINDS
        },
    }


async def _pending(conn: Connection) -> tuple[dict[str, int], bool]:
    """Count pending jobs by kind, or estimate them where the table is large."""
    row = await _PAGES.row(conn, schema=conn.schema)
    pages = row[0] if row is not None else 0
    if pages <= _COUNTED_PAGES:
        return dict(await _PENDING.rows(conn)), False
    share = _SAMPLED_PAGES / pages
    rows = await _SAMPLED.rows(conn, percent=100 * share)
    return {kind: round(jobs / share) for kind, jobs in rows}, True


def _rates(lately: Lately) -> dict[str, Any]:
    """Return how many executions of the last hour erred, jobs failed, leases ended."""
    ended = sum(each.ended for each in lately.kinds.values()) * lately.scale
    errors = sum(each.errors for each in lately.kinds.values()) * lately.scale
    lost = sum(each.lost for each in lately.kinds.values()) * lately.scale
    errors += sum(each.erred for each in lately.troubled.values())
    lost += sum(each.lost for each in lately.troubled.values())
    failed = sum(each.failed for each in lately.troubled.values())
    executions = ended + errors + lost
    return {
        "finished_last_hour": round(ended),
        "errors_last_hour": round(errors),
        "expired_leases_last_hour": round(lost),
        "retry_rate": (errors + lost) / executions if executions else 0.0,
        "failed_last_hour": failed,
        "failure_rate": failed / (ended + failed) if failed else 0.0,
        "last_hour_estimated": lately.estimated,
    }


def _reading(
    waiting: float | None, lately: Lately, pending: Mapping[str, int], running: int
) -> str:
    """Say what the oldest job's age and the job duration mean together."""
    if waiting is None:
        return "nothing that is due waits"
    if not running and not any(kind in KNOWN_KINDS for kind in pending):
        return "only jobs of kinds that nobody here runs wait"
    if not running:
        return "jobs wait and none runs: no worker is at work on this schema"
    medians = [each.median for each in lately.kinds.values() if each.median]
    if not medians:
        return "jobs run, but none has finished within the last hour"
    median = max(medians)
    if waiting <= 2 * median:
        return "jobs start about as soon as the ones before them end"
    return (
        f"jobs wait {waiting:.0f} s and take {median:.1f} s each: more workers shorten "
        "the wait if the node answers fast, otherwise the node is the limit; the queue "
        "itself is not"
    )


async def read_failed(conn: Connection) -> list[dict[str, Any]]:
    """Return failed jobs grouped by reason, each with the command that retries them."""
    rows = await _REASONS.rows(conn, limit=_FAILED_LIMIT)
    return [
        {
            "kind": kind,
            "reason": redact(reason),
            "jobs": jobs,
            "first_id": first_id,
            "retry": _retry(conn.schema, kind, pattern, first_id, jobs),
        }
        for kind, reason, jobs, first_id, pattern in rows
    ]


def _retry(schema: str, kind: str, pattern: str, first_id: int, jobs: int) -> str:
    """Return the command that retries these jobs, and as few others as it can."""
    where = "" if schema == "indexer" else f" --schema {shlex.quote(schema)}"
    if jobs == 1:
        return f"indexer jobs retry {first_id}{where}"
    # A reason's numbers differ from job to job, so the longest part without stands
    # for it.
    part = max(re.split(r"#", pattern), key=len).strip()
    if len(part) >= _SHORTEST_ERROR_PART and redact(part) == part:
        where = f" --error {shlex.quote(part)}{where}"
    return f"indexer jobs retry --kind {shlex.quote(kind)}{where}"
