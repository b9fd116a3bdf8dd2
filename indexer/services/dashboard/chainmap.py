"""The map of the chain: which heights are in which state, summed up in cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from indexer.db.connection import Connection, Database
from indexer.db.queries import load
from indexer.ranges import BlockRange, difference, intersection, union
from indexer.services.kinds import INDEX_BLOCKS
from indexer.store import chain, coverage
from indexer.store.read import begin_snapshot

_QUERIES = load("status")
_PROVEN = _QUERIES["proven_ranges"]
_UNFINISHED = _QUERIES["unfinished_ranges"]

# Every height between the lowest and the highest known is in one of these.
STATES = (
    "proven",
    "stored",
    "blocks_only",
    "in_work",
    "queued",
    "failed",
    "missing",
    "unplanned",
)

# Jobs of a state beyond these are not read. Where more of them wait, nothing is called
# missing, for what looks it may well be queued.
_JOBS_LIMIT = 20_000
_LISTED_RUNS = 100


class ChainMap(NamedTuple):
    """Disjoint ranges of heights by state; ``whole`` is None where nothing is known."""

    whole: BlockRange | None
    states: Mapping[str, list[BlockRange]]


async def read_map(database: Database, *, head: int | None = None) -> ChainMap:
    """Read the map from the coverage notes and the unfinished jobs.

    As of one moment: between two, a job that ended in time would look missing.
    """
    async with database.connection() as conn, conn.transaction():
        await begin_snapshot(conn)
        planned = await chain.planned(conn)
        blocks = await coverage.covered(conn, dataset="blocks")
        events = await coverage.covered(conn, dataset="events")
        proven = intersection(
            await _proven(conn, "blocks"), await _proven(conn, "events")
        )
        jobs = await _unfinished(conn)
    return draw(planned, blocks, events, proven, jobs, head=head)


async def _proven(conn: Connection, dataset: coverage.Dataset) -> list[BlockRange]:
    rows = await _PROVEN.rows(conn, dataset=dataset)
    return [BlockRange(first, last) for first, last in rows]


async def _unfinished(conn: Connection) -> dict[str, list[BlockRange]]:
    """Return the heights that jobs of each state are still to do.

    ``behind``: whose blocks a job has stored, which asks for their receipts when it
    ends.
    """
    found: dict[str, list[BlockRange]] = {"behind": []}
    for state in ("failed", "running", "pending"):
        found[state] = []
        rows = await _UNFINISHED.rows(conn, status=state, limit=_JOBS_LIMIT)
        for kind, first, last, _, following in rows:
            if first is None or last is None:
                # Not of our form, or no heights: its handler says so.
                continue
            if kind == INDEX_BLOCKS and following is not None and first < following:
                found["behind"] += _range(first, min(last, following - 1))
                first = following
            found[state] += _range(first, last)
        if state == "pending" and len(rows) >= _JOBS_LIMIT:
            found[state] = await chain.planned(conn)
    return {state: union(those) for state, those in found.items()}


def _range(first: int, last: int) -> list[BlockRange]:
    return [BlockRange(first, last)] if first <= last else []


def draw(
    planned: list[BlockRange],
    blocks: list[BlockRange],
    events: list[BlockRange],
    proven: list[BlockRange],
    jobs: Mapping[str, list[BlockRange]],
    *,
    head: int | None = None,
) -> ChainMap:
    """Say of every known height which state it is in; pure.

    What is stored needs nothing; of the rest a failed job shows before one that runs,
    that before one that waits, for a block or only for its receipts. What nobody is
    to do is missing, be it a block or the receipts of one.
    """
    known = union([*planned, *blocks, *jobs["running"], *jobs["pending"]])
    if not known:
        return ChainMap(None, {state: [] for state in STATES})
    whole = BlockRange(known[0].first, max(known[-1].last, head or 0))
    states: dict[str, list[BlockRange]] = {}
    complete = intersection(blocks, events)
    waiting = union([*jobs["pending"], *jobs["behind"]])
    states["proven"] = intersection(proven, complete)
    states["stored"] = difference(complete, proven)
    left = difference([whole], complete)
    for state, those in (
        ("failed", jobs["failed"]),
        ("in_work", jobs["running"]),
        ("blocks_only", intersection(blocks, waiting)),
        ("queued", jobs["pending"]),
        ("missing", union([*planned, *blocks])),
    ):
        states[state] = intersection(left, those)
        left = difference(left, those)
    states["unplanned"] = left
    return ChainMap(whole, states)


def view(found: ChainMap, *, wanted: BlockRange | None, cells: int) -> dict[str, Any]:
    """Return a part of the map in ``cells`` cells, ready for JSON.

    Every cell has the number of its heights in each of ``STATES``; the last cell may
    be shorter. ``runs`` are the intervals in the view that are not stored, the first
    ones.
    """
    if found.whole is None:
        return {"whole": None, "view": None, "cells": [], "totals": {}, "runs": []}
    part = found.whole if wanted is None else _within(wanted, found.whole)
    size = max(1, -(-len(part) // cells))
    counts = [[0] * len(STATES) for _ in range(-(-len(part) // size))]
    totals = dict.fromkeys(STATES, 0)
    runs: list[dict[str, Any]] = []
    for index, state in enumerate(STATES):
        for run in intersection(found.states[state], [part]):
            totals[state] += len(run)
            _spread(run, part.first, size, counts, index)
            if state not in ("proven", "stored"):
                runs.append({"state": state, "from": run.first, "to": run.last})
    runs.sort(key=lambda each: each["from"])
    return {
        "whole": {"from": found.whole.first, "to": found.whole.last},
        "view": {"from": part.first, "to": part.last},
        "cell_size": size,
        "states": list(STATES),
        "cells": counts,
        "totals": totals,
        "runs": runs[:_LISTED_RUNS],
        "runs_total": len(runs),
    }


def _within(wanted: BlockRange, whole: BlockRange) -> BlockRange:
    first = min(max(wanted.first, whole.first), whole.last)
    return BlockRange(first, max(first, min(wanted.last, whole.last)))


def _spread(
    run: BlockRange, start: int, size: int, counts: list[list[int]], index: int
) -> None:
    first, last = (run.first - start) // size, (run.last - start) // size
    for cell in range(first, last + 1):
        low = max(run.first, start + cell * size)
        high = min(run.last, start + (cell + 1) * size - 1)
        counts[cell][index] += high - low + 1
