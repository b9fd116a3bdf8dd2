"""What can be proven of the stored chain, without a node to ask."""

from __future__ import annotations

from indexer.chain.verify import (
    Commitment,
    Profile,
    probe,
    profile_of,
    recalled_profile,
)
from indexer.chain.verify.profiles import UNKNOWN, probed_profile
from indexer.db.connection import Database
from indexer.ranges import BlockRange, split
from indexer.rows import BlockData, BlockEvents
from indexer.store import chain
from indexer.store.read import begin_snapshot, read_rows

_SAMPLES = 24


async def stored_profile(database: Database, heights: list[BlockRange]) -> Profile:
    """Return the profile by the chain's id, by note, or by what the rows show.

    The rows may be damaged, so what holds in any of them can be proven: no damage
    gives the right hash by chance.
    """
    async with database.connection() as conn:
        identity = await chain.identity(conn)
        noted = recalled_profile(await chain.profile(conn))
    known = profile_of(identity.chain_id) if identity is not None else None
    if known is not None or noted is not None:
        return known or noted or UNKNOWN
    samples = await _samples(database, heights)
    if not samples:
        return UNKNOWN
    rich = [each for each in samples if each[0].transactions and each[1].logs]
    proves: frozenset[Commitment] = frozenset()
    for sample in rich or samples:
        proves |= probe([sample]).proves
    return probed_profile(proves)


async def _samples(
    database: Database, heights: list[BlockRange]
) -> list[tuple[BlockData, BlockEvents]]:
    found: list[tuple[BlockData, BlockEvents]] = []
    step = max(1, sum(map(len, heights)) // _SAMPLES)
    places = [part.first for each in heights for part in split(each, step)]
    for number in places[: 2 * _SAMPLES]:
        async with database.connection() as conn, conn.transaction():
            await begin_snapshot(conn)
            rows = await read_rows(conn, BlockRange(number, number))
        found += zip(rows.blocks, rows.events, strict=True)
    return found
