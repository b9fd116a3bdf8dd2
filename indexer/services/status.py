"""How far, how fast, and what stands in the way; cheap at any size.

Progress and gaps come from the coverage notes, which are kept with the data; the rows
themselves are read by ``verify`` and ``plan``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from indexer.db.connection import Connection, Database
from indexer.db.queries import load
from indexer.jobs import backlog
from indexer.ranges import BlockRange, count, difference, intersection
from indexer.services.kinds import INDEX_BLOCKS, INDEX_EVENTS
from indexer.store import chain, coverage

_QUERIES = load("status")
_DURATIONS = _QUERIES["job_durations"]
_FAILED = _QUERIES["failed_reasons"]
_WORKERS = _QUERIES["workers"]
_LAST_AUDIT = _QUERIES["last_audit"]
_FOLLOWER = _QUERIES["follower"]
_NEWEST = _QUERIES["newest_block"]
_ENDPOINTS = load("chain")["endpoints"]

# Gaps beyond these are counted, not listed.
_LISTED_GAPS = 20


async def read_status(database: Database) -> dict[str, Any]:
    """Return everything ``indexer status`` shows, ready for JSON."""
    async with database.connection() as conn:
        return {
            "schema": conn.schema,
            "chain": await _chain(conn),
            "progress": await _progress(conn),
            "tip": await _tip(conn),
            "queue": await _queue(conn),
            "failed": [
                {
                    "kind": kind,
                    "reason": reason,
                    "jobs": jobs,
                    "retry": f"indexer jobs retry --kind {kind}",
                }
                for kind, reason, jobs in await _FAILED.rows(conn)
            ],
            "workers": [_worker(row) for row in await _WORKERS.rows(conn)],
            "endpoints": [
                {
                    "name": name,
                    "state": state,
                    "limits": limits,
                    "last_error": error,
                    "updated_at": updated.isoformat(),
                }
                for name, state, limits, error, updated in await _ENDPOINTS.rows(conn)
            ],
        }


async def _chain(conn: Connection) -> dict[str, Any] | None:
    held = await chain.identity(conn)
    if held is None:
        return None
    return {
        "chain_id": held.chain_id,
        "genesis_hash": "0x" + held.genesis_hash.hex(),
    }


async def _progress(conn: Connection) -> dict[str, Any]:
    planned = await chain.planned(conn)
    blocks = await coverage.covered(conn, dataset="blocks")
    events = await coverage.covered(conn, dataset="events")
    gaps = difference(planned, blocks)
    audit = await _LAST_AUDIT.row(conn)
    audited = audit[0] if audit is not None and audit[1] == 0 else None
    return {
        "planned_blocks": count(planned),
        "stored_blocks": count(blocks),
        "stored_events": count(events),
        "planned_stored_blocks": count(intersection(planned, blocks)),
        "planned_stored_events": count(intersection(planned, events)),
        "missing_blocks": count(gaps),
        "missing_events": count(difference(blocks, events)),
        "gaps": [_inclusive(each) for each in gaps[:_LISTED_GAPS]],
        "gaps_total": len(gaps),
        "audited_at": audited.isoformat() if audited is not None else None,
    }


def _inclusive(blocks: BlockRange) -> dict[str, int]:
    return {"from": blocks.first, "to": blocks.last}


async def _tip(conn: Connection) -> dict[str, Any]:
    newest = await _NEWEST.row(conn)
    holder = await _FOLLOWER.row(conn)
    following = holder is not None and holder[1] > 0
    return {
        "highest_block": newest[0] if newest else None,
        "highest_hash": "0x" + newest[1].hex() if newest else None,
        "age_seconds": newest[3] if newest else None,
        "follower": holder[0] if holder is not None and following else None,
    }


async def _queue(conn: Connection) -> dict[str, Any]:
    counts = await backlog.count_jobs(conn)
    kinds: dict[str, dict[str, int]] = {}
    for (kind, state), jobs in sorted(counts.items()):
        kinds.setdefault(kind, {})[state] = jobs
    oldest = await backlog.oldest_pending_age(conn)
    durations = {
        kind: {
            "finished_last_hour": jobs,
            "median_seconds": median.total_seconds(),
            "longest_seconds": longest.total_seconds(),
        }
        for kind, jobs, median, longest in await _DURATIONS.rows(conn)
    }
    return {
        "kinds": kinds,
        "pending": sum(each.get("pending", 0) for each in kinds.values()),
        "running": sum(each.get("running", 0) for each in kinds.values()),
        "failed": sum(each.get("failed", 0) for each in kinds.values()),
        "oldest_pending_seconds": oldest.total_seconds() if oldest else None,
        "durations": durations,
        "reading": _reading(oldest, durations, counts),
        "unknown_kinds": await backlog.count_unknown_kinds(
            conn, kinds=[INDEX_BLOCKS, INDEX_EVENTS]
        ),
    }


def _reading(
    oldest: timedelta | None,
    durations: dict[str, dict[str, Any]],
    counts: dict[tuple[str, str], int],
) -> str:
    """Say what the oldest job's age and the job duration mean together."""
    running = sum(jobs for (_, state), jobs in counts.items() if state == "running")
    if oldest is None:
        return "nothing that is due waits"
    if not running:
        return "jobs wait and none runs: no worker is at work on this schema"
    median = max((each["median_seconds"] for each in durations.values()), default=None)
    if median is None:
        return "jobs run, but none has finished within the last hour"
    if oldest.total_seconds() <= 2 * median:
        return "jobs start about as soon as the ones before them end"
    return (
        f"jobs wait {oldest.total_seconds():.0f} s and take {median:.1f} s each: more "
        "workers shorten the wait if the node answers fast, otherwise the node is the "
        "limit; the queue itself is not"
    )


def _worker(row: tuple[Any, ...]) -> dict[str, Any]:
    names = (
        "name",
        "role",
        "host",
        "pid",
        "version",
        "concurrency",
        "uptime_seconds",
        "last_seen_seconds",
        "claims",
    )
    return dict(zip(names, row, strict=True))
