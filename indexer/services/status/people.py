"""Who works, with which nodes, and where the tip is."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from indexer.db.connection import Connection
from indexer.db.queries import load
from indexer.log import redact

_QUERIES = load("status")
_WORKERS = _QUERIES["workers"]
_CLAIMS = _QUERIES["claims"]
_FOLLOWER = _QUERIES["follower"]
_NEWEST = _QUERIES["newest_block"]
_REORGS = _QUERIES["reorgs_lately"]
_HEAD = _QUERIES["head"]
_CONTRADICTION = _QUERIES["contradiction"]
_ENDPOINTS = load("chain")["endpoints"]

_CLAIMS_LIMIT = 2000
# Claims of a worker beyond these are counted, not listed.
_LISTED_CLAIMS = 20
# What an endpoint said of its head before says nothing of the lag now.
_HEAD_FRESH = timedelta(minutes=2)


async def read_workers(conn: Connection) -> list[dict[str, Any]]:
    """Return who is alive and what each of them holds."""
    held: dict[str, list[dict[str, Any]]] = {}
    for row in await _CLAIMS.rows(conn, limit=_CLAIMS_LIMIT):
        held.setdefault(row[3], []).append(_claim(row))
    names = (
        "name",
        "role",
        "host",
        "pid",
        "version",
        "concurrency",
        "uptime_seconds",
        "last_seen_seconds",
    )
    workers = [dict(zip(names, row, strict=True)) for row in await _WORKERS.rows(conn)]
    for worker in workers:
        claims = held.get(worker["name"], [])
        worker["claims"] = len(claims)
        worker["holds"] = claims[:_LISTED_CLAIMS]
    return workers


def _claim(row: tuple[Any, ...]) -> dict[str, Any]:
    job_id, kind, payload, _, attempts, age, left, following = row
    return {
        "job": job_id,
        "kind": kind,
        "work": _work(payload),
        "attempts": attempts,
        "seconds": age,
        "lease_left_seconds": left,
        "next_height": following,
    }


def _work(payload: str) -> str:
    """Say in a few characters which heights a payload means."""
    try:
        found = json.loads(payload)
        if "height" in found:
            return f"block {int(found['height'])}"
        return f"blocks {int(found['from'])}..{int(found['to'])}"
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return redact(payload[:80])


async def read_endpoints(conn: Connection) -> list[dict[str, Any]]:
    """Return every endpoint that was used, and what is known of it."""
    return [
        {
            "name": redact(name),
            "state": state,
            "limits": limits,
            "last_error": redact(error) if error is not None else None,
            "updated_at": updated.isoformat(),
        }
        for name, state, limits, error, updated in await _ENDPOINTS.rows(conn)
    ]


async def read_tip(conn: Connection) -> dict[str, Any]:
    """Return the highest stored block, its age, and how far the node is ahead."""
    newest = await _NEWEST.row(conn)
    holder = await _FOLLOWER.row(conn)
    following = holder is not None and holder[1] > 0
    noted = await _HEAD.row(conn, fresh=_HEAD_FRESH)
    head = noted[0] if noted is not None else None
    reorgs = await _REORGS.row(conn)
    contradiction = await _CONTRADICTION.row(conn)
    highest = newest[0] if newest else None
    return {
        "highest_block": highest,
        "highest_hash": "0x" + newest[1].hex() if newest else None,
        "age_seconds": newest[3] if newest else None,
        "head_block": head,
        "lag_blocks": (
            max(0, head - highest) if head is not None and highest is not None else None
        ),
        "follower": holder[0] if holder is not None and following else None,
        "contradiction": contradiction[0] if contradiction is not None else None,
        "reorgs_last_day": reorgs[0] if reorgs else 0,
        "deepest_reorg_last_day": reorgs[1] if reorgs else None,
    }
