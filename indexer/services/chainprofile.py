"""Find out what can be proven of the chain: by its id, a note, or its blocks."""

from __future__ import annotations

import logging

from indexer.chain.endpoint import Endpoint
from indexer.chain.endpoints import Endpoints
from indexer.chain.fetch import fetch_blocks, fetch_events
from indexer.chain.tip import head_of
from indexer.chain.verify import (
    EVERYTHING,
    Commitment,
    Profile,
    probe,
    profile_of,
    recalled_profile,
)
from indexer.chain.verify.profiles import UNKNOWN, probed_profile
from indexer.db.connection import Database
from indexer.errors import IndexerError
from indexer.rows import BlockData, BlockEvents
from indexer.services.proofs import Level, Prover
from indexer.store import chain

# Blocks with transactions of several types tell most: some of the newest, which are
# the busiest, and some of all ages, which may have been made in other ways.
_NEWEST = 6
_SPREAD = 6

log = logging.getLogger(__name__)


async def make_prover(
    database: Database, endpoints: Endpoints, *, level: Level
) -> Prover:
    """Return what proves this schema's chain; its identity is known by now."""
    if level == "off":
        log.warning("--verify off: nothing is proven before it is stored")
        return Prover(UNKNOWN, level)
    async with database.connection() as conn:
        identity = await chain.identity(conn)
        noted = await chain.profile(conn)
    known = profile_of(identity.chain_id) if identity is not None else None
    profile = known or recalled_profile(noted)
    if profile is None:
        profile = await _probed(database, endpoints)
    elif noted == chain.UNKNOWN_PROFILE:
        async with database.connection() as conn:
            await chain.keep_profile(conn, profile.name)
    _say(profile)
    return Prover(profile, level)


def _say(profile: Profile) -> None:
    missing = [each for each in Commitment if each not in profile.proves]
    if missing:
        log.warning(
            "NOT PROVEN: of this chain (%s) these cannot be proven, and its blocks are "
            "marked so: %s",
            profile.name,
            ", ".join(missing),
        )
    else:
        log.info("all roots are proven before anything is stored (%s)", profile.name)


async def _probed(database: Database, endpoints: Endpoints) -> Profile:
    """Ask every endpoint for some blocks: what holds at one can be proven.

    No answer gives the right hash by chance, while a wrong one of a single endpoint
    must not make the chain pass for one that cannot be proven.
    """
    proves: frozenset[Commitment] = frozenset()
    asked = False
    for endpoint in endpoints.all:
        try:
            samples = await endpoints.ask(endpoint, _samples)
        except IndexerError as error:
            log.info("could not look at blocks of %s: %s", endpoint.name, error)
            continue
        asked = True
        proves |= probe(samples).proves
    if not asked:
        # Looked at again at the next start; until then nothing passes unproven.
        return probed_profile(EVERYTHING)
    async with database.connection() as conn:
        name = await chain.keep_profile(conn, probed_profile(proves).name)
    return recalled_profile(name) or probed_profile(proves)


async def _samples(endpoint: Endpoint) -> list[tuple[BlockData, BlockEvents]]:
    head = await head_of(endpoint)
    newest = range(max(0, head - _NEWEST + 1), head + 1)
    spread = range(0, head + 1, max(1, head // _SPREAD))
    blocks = await fetch_blocks(endpoint, sorted({*newest, *spread}))
    events = await fetch_events(endpoint, [each.ref() for each in blocks])
    return list(zip(blocks, events, strict=True))
