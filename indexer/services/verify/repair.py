"""Make what is stored the chain again: plan what is missing, replace what is wrong.

Nothing is deleted before its replacement is in hand, fetched from a node and proven;
below the finalized height as well as above.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import NamedTuple

from indexer.chain.endpoint import Endpoint
from indexer.chain.endpoints import Endpoints
from indexer.chain.tip import head_number
from indexer.db.connection import Database
from indexer.db.queries import load
from indexer.errors import ChainDataError, NotYetAvailable, RpcError, TransientError
from indexer.jobs import backlog
from indexer.jobs.backlog import JobFilter
from indexer.ranges import BlockRange, difference, intersection, split, union
from indexer.rows import BlockData, BlockEvents
from indexer.services.kinds import REPAIR_PRIORITY
from indexer.services.plan import plan
from indexer.services.proofs import Fetched, Prover
from indexer.services.verify.faults import Fault, FaultKind
from indexer.services.verify.report import Repair
from indexer.store import blocks as stored
from indexer.store import coverage
from indexer.store.partitions import ensure_partitions

_QUERIES = load("verify")
_LOCK = _QUERIES["lock_heights"]
_DELETE = _QUERIES["delete_heights"]
_DELETE_ORPHANS = load("blocks")["delete_orphans"]

# Blocks replaced by one transaction: few, so that it is short and the replacement
# fits into memory whatever the blocks are.
_AT_ONCE = 20

_PLANNED = (FaultKind.MISSING_BLOCK, FaultKind.MISSING_EVENTS)

log = logging.getLogger(__name__)


class _Replacement(NamedTuple):
    """Blocks with their events, from one endpoint (C7)."""

    blocks: Fetched[BlockData]
    events: Fetched[BlockEvents]


async def repair(
    database: Database,
    endpoints: Endpoints,
    prover: Prover,
    *,
    faults: list[Fault],
    wanted: list[BlockRange],
) -> Repair:
    """Repair faults; return what was done and what had to be left, and why.

    ``wanted`` are the heights that have to be stored: rows of no block at others are
    removed. What is missing is queued, not fetched here.
    """
    done = Repair()
    missing = union(each.blocks for each in faults if each.kind in _PLANNED)
    orphaned = union(
        each.blocks for each in faults if each.kind is FaultKind.ORPHANED_ROWS
    )
    missing = union(missing + intersection(orphaned, wanted))
    if missing:
        head = await head_number(endpoints)
        for run in difference(missing, [BlockRange(0, head)]):
            done.left.append(
                f"blocks {run}: the node's head is {head}, so there is nothing to "
                f"fetch{_forgetting(run)}"
            )
        missing = intersection(missing, [BlockRange(0, head)])
    await _plan_missing(database, missing, done)
    await _remove_orphans(database, difference(orphaned, wanted), done)
    for run in _wrong(faults):
        for part in split(run, _AT_ONCE):
            try:
                await _replace(database, endpoints, prover, part, run)
            except (ChainDataError, RpcError, TransientError) as error:
                way_on = isinstance(error, NotYetAvailable) and _forgetting(part)
                done.left.append(f"blocks {part}: {error}{way_on or ''}")
            else:
                done.replaced.append(part)
                log.info("replaced blocks %s by the node's", part)
    return done


def _forgetting(part: BlockRange) -> str:
    """Say how to be rid of blocks that the chain does not have."""
    return f"; `indexer forget --from {part.first} --to {part.last + 1}` removes them"


def _wrong(faults: list[Fault]) -> list[BlockRange]:
    """Return the heights to replace: of a broken link both ends."""
    ranges = []
    for fault in faults:
        if fault.kind in _PLANNED or fault.kind is FaultKind.ORPHANED_ROWS:
            continue
        first = fault.first
        if fault.kind is FaultKind.BROKEN_LINK:
            first = max(0, first - 1)
        ranges.append(BlockRange(first, fault.last))
    return union(ranges)


async def _plan_missing(
    database: Database, missing: list[BlockRange], done: Repair
) -> None:
    failed: set[int] = set()
    for run in missing:
        made = await plan(database, blocks=run, priority=REPAIR_PRIORITY)
        done.jobs_queued += len(made.block_jobs) + len(made.event_jobs)
        failed |= {each.id for each in made.failed}
    if failed:
        async with database.connection() as conn:
            done.jobs_retried = await backlog.retry_failed(
                conn, which=JobFilter(ids=sorted(failed))
            )


async def _remove_orphans(
    database: Database, orphaned: list[BlockRange], done: Repair
) -> None:
    for run in orphaned:
        for part in split(run, coverage.BUCKET_HEIGHTS):
            # Below the first block of all a block is as wrong as its rows.
            delete = _DELETE if part.last < 0 else _DELETE_ORPHANS
            async with database.transaction() as conn:
                await delete.run(conn, first=part.first, last=part.last)
        done.removed.append(run)


async def _replace(
    database: Database,
    endpoints: Endpoints,
    prover: Prover,
    part: BlockRange,
    run: BlockRange,
) -> None:
    """Replace some heights of a run that is wrong, by one transaction."""
    new = await endpoints.run(partial(_fetch, prover=prover, part=part))
    async with database.connection() as conn:
        await ensure_partitions(conn, part)
    async with database.transaction() as conn:
        await _LOCK.run(conn, first=part.first, last=part.last)
        await _DELETE.run(conn, first=part.first, last=part.last)
        await coverage.subtract(conn, blocks=part)
        await stored.write_blocks(
            conn,
            data=new.blocks.data,
            fresh=True,
            certainty=new.blocks.certainty,
            # What is above in the run is wrong as well, and replaced next.
            fits_above=part.last == run.last,
        )
        await stored.write_events(
            conn,
            data=new.events.data,
            fresh=True,
            final=True,
            certainty=new.events.certainty,
        )


async def _fetch(endpoint: Endpoint, prover: Prover, part: BlockRange) -> _Replacement:
    blocks = await prover.fetch_blocks(endpoint, part.heights())
    refs = [each.ref() for each in blocks.data]
    return _Replacement(blocks, await prover.fetch_events(endpoint, refs))
