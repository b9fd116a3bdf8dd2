"""A reorganisation: the replaced blocks leave as their successors arrive (C5).

One transaction, in the one lock order: the role, jobs by id, blocks by number.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import NamedTuple

from indexer.chain.lead import Head, Lead
from indexer.db.connection import Connection, Database
from indexer.db.queries import load
from indexer.errors import InconsistentResponse
from indexer.jobs import backlog
from indexer.ranges import BlockRange
from indexer.rows import BlockData
from indexer.services.chunks import ChunkSizer
from indexer.services.follow.role import Role
from indexer.services.follow.spool import Spool
from indexer.services.kinds import INDEX_EVENTS, TIP_PRIORITY, tip_payload
from indexer.services.proofs import Fetched, Prover
from indexer.store import blocks as stored
from indexer.store import reorg
from indexer.store.blocks import StoredBlock
from indexer.store.copy import RangeNotFresh
from indexer.store.partitions import ensure_partitions
from indexer.store.reorg import Reorg

_QUERIES = load("follow")
_JOBS_ABOVE = _QUERIES["lock_jobs_above"]
_HOLD_JOBS = _QUERIES["hold_jobs"]
_DELETE_PINNED = _QUERIES["delete_pinned_jobs"]
_REWIND = _QUERIES["rewind_jobs"]

# What the new chain has beyond the old tip comes along up to here; the rest is an
# ordinary advance.
_BEYOND = 20


class Replaced(NamedTuple):
    """What was done, and the new tip."""

    reorg: Reorg
    tip: StoredBlock


async def replace_above(
    database: Database,
    lead: Lead,
    role: Role,
    prover: Prover,
    *,
    head: Head,
    fork: int,
    highest: StoredBlock,
) -> Replaced:
    """Replace every stored block above ``fork`` by an endpoint's, and their jobs.

    The successors are in hand, linked up to the block at ``fork``, before anything
    is deleted, and reach at least as high as what they replace. Raises RangeNotFresh
    where others stored something meanwhile, and LeaseLost.
    """
    last = max(highest.number, min(head.number, highest.number + _BEYOND))
    heights = BlockRange(fork + 1, last)
    async with database.connection() as conn:
        below = await stored.block_hash(conn, fork)
        await ensure_partitions(conn, heights)
    with Spool() as spool:
        new_tip = None
        async for fetched in _successors(lead, prover, head, heights, below):
            spool.put(fetched)
            new_tip = fetched.data[-1].block
        assert new_tip is not None, "a range of blocks is never empty"
        done = Reorg(fork, highest.number - fork, highest.hash, new_tip.hash)
        async with database.transaction() as conn:
            await role.fence(conn)
            await _settle_jobs(conn, fork)
            await _check_unchanged(conn, fork, below, highest)
            await reorg.delete_above(conn, fork=fork)
            for fetched in spool.chunks():
                await store_new(conn, fetched, fresh=True)
            await reorg.record(conn, done)
    return Replaced(done, StoredBlock(new_tip.number, new_tip.hash))


async def store_new(
    conn: Connection,
    fetched: Fetched[BlockData],
    *,
    fresh: bool,
    known: frozenset[int] = frozenset(),
) -> int:
    """Store blocks, and jobs for those that are not ``known`` as stored already."""
    data, certainty = fetched
    await stored.write_blocks(conn, data=data, fresh=fresh, certainty=certainty)
    new = [each.block for each in data if each.block.number not in known]
    await backlog.enqueue(
        conn,
        kind=INDEX_EVENTS,
        payloads=[tip_payload(each.number, each.hash) for each in new],
        priority=TIP_PRIORITY,
    )
    return len(new)


async def _successors(
    lead: Lead, prover: Prover, head: Head, heights: BlockRange, below: bytes | None
) -> AsyncIterator[Fetched[BlockData]]:
    """Fetch blocks from one endpoint, each chunk fitting the one before."""
    sizer = ChunkSizer()
    first = heights.first
    while first <= heights.last:
        last = min(heights.last, first + sizer.size - 1)
        fetched = await lead.ask(
            head.endpoint, partial(prover.fetch_blocks, heights=range(first, last + 1))
        )
        data = fetched.data
        if below is not None and data[0].block.parent_hash != below:
            raise InconsistentResponse(
                f"{head.endpoint.name} changed its chain while it was asked: block "
                f"{first} does not fit the one below any more",
                block_number=first,
            )
        sizer.learn(len(data), sum(each.raw_bytes for each in data))
        yield fetched
        below = data[-1].block.hash
        first = last + 1


async def _settle_jobs(conn: Connection, fork: int) -> None:
    """Hold the jobs above the fork, and end or rewind them.

    A job that was completed while its lock was waited for may have enqueued another,
    so the look is repeated until it finds nothing new.
    """
    known: list[int] = []
    held: list[int] = []
    while found := [
        row[0] for row in await _JOBS_ABOVE.rows(conn, fork=fork, known=known)
    ]:
        known += found
        held += [row[0] for row in await _HOLD_JOBS.rows(conn, ids=found)]
    if held:
        await _DELETE_PINNED.run(conn, ids=held)
        await _REWIND.run(conn, ids=held, fork=fork, schema=conn.schema)


async def _check_unchanged(
    conn: Connection, fork: int, below: bytes | None, highest: StoredBlock
) -> None:
    above = await reorg.lock_above(conn, fork=fork)
    if (
        not above
        or above[-1] != highest
        or await stored.block_hash(conn, fork) != below
    ):
        raise RangeNotFresh("blocks were stored or removed meanwhile; looking again")
