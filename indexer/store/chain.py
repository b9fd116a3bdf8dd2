"""Which chain the schema holds, and what was planned of it."""

from __future__ import annotations

from typing import NamedTuple

from indexer.db.connection import Connection
from indexer.db.queries import load
from indexer.errors import WrongChain
from indexer.ranges import BlockRange, union

_QUERIES = load("chain")
_IDENTITY = _QUERIES["chain_identity"]
_CLAIM = _QUERIES["claim_chain"]
_PROFILE = _QUERIES["keep_profile"]
_RECORD_PLAN = _QUERIES["record_plan"]
_PLANNED = _QUERIES["planned_ranges"]
_LOCK_PLANNING = _QUERIES["lock_planning"]


UNKNOWN_PROFILE = "unknown"


class StoredIdentity(NamedTuple):
    """The chain of a schema."""

    chain_id: int
    genesis_hash: bytes


async def identity(conn: Connection) -> StoredIdentity | None:
    """Return the chain this schema holds, None while it holds nothing."""
    row = await _IDENTITY.row(conn)
    return None if row is None else StoredIdentity(int(row[0]), row[1])


async def claim_identity(
    conn: Connection, *, chain_id: int, genesis_hash: bytes
) -> StoredIdentity:
    """Say that this schema holds the chain; return what it holds.

    Raises WrongChain where it holds another one already.
    """
    await _CLAIM.run(conn, chain_id=chain_id, genesis_hash=genesis_hash)
    held = await identity(conn)
    if held != StoredIdentity(chain_id, genesis_hash):
        raise WrongChain(
            f"schema {conn.schema} holds chain {held.chain_id if held else None} with "
            f"genesis 0x{held.genesis_hash.hex() if held else ''}, but the node serves "
            f"chain {chain_id} with genesis 0x{genesis_hash.hex()}. Use the right "
            "--rpc-url, or another --schema for this chain"
        )
    return held


async def profile(conn: Connection) -> str:
    """Return the name of what can be proven of the chain, or UNKNOWN_PROFILE."""
    row = await _IDENTITY.row(conn)
    return UNKNOWN_PROFILE if row is None else str(row[2])


async def keep_profile(conn: Connection, name: str) -> str:
    """Note what can be proven of the chain, once; return what is noted."""
    await _PROFILE.run(conn, profile=name, unknown=UNKNOWN_PROFILE)
    return await profile(conn)


async def lock_planning(conn: Connection) -> None:
    """Hold the schema's planning for the current transaction."""
    await _LOCK_PLANNING.run(conn, schema=conn.schema)


async def record_plan(
    conn: Connection, *, blocks: BlockRange, range_size: int, jobs_queued: int
) -> None:
    """Remember that a range was planned."""
    await _RECORD_PLAN.run(
        conn,
        first=blocks.first,
        last=blocks.last,
        range_size=range_size,
        jobs_queued=jobs_queued,
    )


async def planned(conn: Connection) -> list[BlockRange]:
    """Return all heights that were ever planned, as disjoint ranges."""
    return union(BlockRange(row[0], row[1]) for row in await _PLANNED.rows(conn))
