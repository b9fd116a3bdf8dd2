"""Refuse a node of another chain before anything is asked of it."""

from __future__ import annotations

from indexer.chain.endpoints import Endpoints
from indexer.db.connection import Database
from indexer.store import chain


async def check_identity(database: Database, endpoints: Endpoints) -> None:
    """Check every endpoint against the chain this schema holds.

    The first endpoint ever used says which chain that is. Raises WrongChain.
    """
    found = await endpoints.check_chain()
    async with database.connection() as conn:
        await chain.claim_identity(
            conn, chain_id=found.chain_id, genesis_hash=found.genesis_hash
        )
