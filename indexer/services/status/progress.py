"""How much of what is planned is stored, how fast, and until when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from indexer.db.connection import Connection
from indexer.db.queries import load
from indexer.ranges import BlockRange, count, difference, intersection
from indexer.services.kinds import INDEX_BLOCKS, INDEX_EVENTS
from indexer.services.status.lately import RATE_WINDOW, Lately
from indexer.services.status.pace import Pace, Rates
from indexer.store import chain, coverage

_QUERIES = load("status")
_LAST_AUDIT = _QUERIES["last_audit"]
_PROVEN = _QUERIES["proven_ranges"]
_RUNNING_WORK = _QUERIES["running_work"]

# Gaps beyond these are counted, not listed.
_LISTED_GAPS = 20
# No date is worth telling beyond this many seconds.
_LONGEST_ETA = 10 * 365 * 86400.0


async def read_progress(
    conn: Connection, *, lately: Lately, pace: Pace | None
) -> dict[str, Any]:
    """Return how far the planned heights are."""
    planned = await chain.planned(conn)
    blocks = await coverage.covered(conn, dataset="blocks")
    events = await coverage.covered(conn, dataset="events")
    gaps = difference(planned, blocks)
    missing_events = difference(planned, events)
    audit = await _LAST_AUDIT.row(conn)
    audited = audit[0] if audit is not None and audit[1] == 0 else None
    rates = pace.look(blocks=count(blocks), events=count(events)) if pace else None
    rate = _seen(rates) if rates is not None else await _worked(conn, lately, planned)
    return {
        "planned_blocks": count(planned),
        "stored_blocks": count(blocks),
        "stored_events": count(events),
        "proven_blocks": await _proven(conn, "blocks"),
        "proven_events": await _proven(conn, "events"),
        "planned_stored_blocks": count(intersection(planned, blocks)),
        "planned_stored_events": count(intersection(planned, events)),
        "missing_blocks": count(gaps),
        "missing_events": count(difference(blocks, events)),
        "gaps": [_inclusive(each) for each in gaps[:_LISTED_GAPS]],
        "gaps_total": len(gaps),
        "audited_at": audited.isoformat() if audited is not None else None,
        "rate": rate,
        **_arrival(count(gaps) + count(missing_events), rate),
    }


async def _proven(conn: Connection, dataset: coverage.Dataset) -> int:
    rows = await _PROVEN.rows(conn, dataset=dataset)
    return sum(last - first + 1 for first, last in rows)


def _seen(rates: Rates) -> dict[str, Any]:
    return {
        "blocks_per_second": rates.blocks,
        "events_per_second": rates.events,
        "window_seconds": rates.seconds,
        "of": "what was stored since the first look",
        "estimated": False,
    }


async def _worked(
    conn: Connection, lately: Lately, planned: list[BlockRange]
) -> dict[str, Any]:
    """Work the rates out of what finished and running jobs did in the window."""
    done = dict.fromkeys((INDEX_BLOCKS, INDEX_EVENTS), 0.0)
    seconds = 0.0
    for kind, finished in lately.kinds.items():
        if kind in done:
            done[kind] += finished.heights
            seconds = max(seconds, finished.heights_seconds)
    for kind, heights, since in await _RUNNING_WORK.rows(conn, window=RATE_WINDOW):
        if kind in done:
            done[kind] += heights or 0.0
            seconds = max(seconds, since or 0.0)
    seconds = min(seconds, RATE_WINDOW.total_seconds())
    return {
        "blocks_per_second": done[INDEX_BLOCKS] / seconds if seconds else 0.0,
        "events_per_second": done[INDEX_EVENTS] / seconds if seconds else 0.0,
        "window_seconds": seconds,
        "of": "what finished and running jobs did",
        "estimated": True,
    }


def _arrival(left: int, rate: dict[str, Any]) -> dict[str, Any]:
    """Say when it is done, if it goes on like that; None where it does not move."""
    pace = rate["blocks_per_second"] + rate["events_per_second"]
    if not left or not pace or left / pace > _LONGEST_ETA:
        return {"eta_seconds": 0.0 if not left else None, "eta_at": None}
    seconds = left / pace
    arrival = datetime.now(UTC) + timedelta(seconds=seconds)
    return {"eta_seconds": seconds, "eta_at": arrival.isoformat(timespec="seconds")}


def _inclusive(blocks: BlockRange) -> dict[str, int]:
    return {"from": blocks.first, "to": blocks.last}
