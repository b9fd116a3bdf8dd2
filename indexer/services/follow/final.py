"""How far the stored chain is final, so that nothing is replaced there (C6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from indexer.chain.lead import Lead
from indexer.chain.tip import Mark, finalized_mark
from indexer.db.connection import Database
from indexer.errors import IndexerError
from indexer.services.follow.role import Role
from indexer.store import blocks as stored
from indexer.store import reorg
from indexer.tasks import end_tasks

# One request each time the tip rose, on the fastest chains four a second.
_SPACING_SECONDS = 0.25


class Finality:
    """The height up to which the stored chain was seen final.

    Not the node's finalized height of this moment: what was stored at the tip and
    orphaned while the follower was down may be below that by now, and nobody ever
    saw it final. So the height is kept in the database, and it only rises while the
    stored block there is the node's.
    """

    def __init__(
        self, database: Database, lead: Lead, role: Role, *, depth: int | None
    ) -> None:
        """``depth`` stands in where a node has no ``finalized`` tag."""
        self._database = database
        self._lead = lead
        self._role = role
        self._depth = depth
        self._risen = asyncio.Event()
        self._noted = -1
        self.height: int | None = None

    async def recall(self) -> None:
        """Read what was noted; where nothing was, what the node says now."""
        async with self._database.connection() as conn:
            self.height = await reorg.final_number(conn)
        if self.height is not None:
            self._noted = self.height
        elif mark := await self._ask():
            self.height = mark.number

    def tip_rose(self) -> None:
        """Have the node asked again, soon."""
        self._risen.set()

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Follow the finalized height while the body runs."""
        keeper = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            await end_tasks(keeper)

    async def _keep(self) -> None:
        while True:
            await self._risen.wait()
            self._risen.clear()
            # Not knowing it is safe; the follower's own requests report an outage.
            with suppress(IndexerError):
                await self._refresh()
            await asyncio.sleep(_SPACING_SECONDS)

    async def _ask(self) -> Mark | None:
        return await self._lead.ask(
            self._lead.current, partial(finalized_mark, depth=self._depth)
        )

    async def _refresh(self) -> None:
        mark = await self._ask()
        if mark is None or mark.number <= self._noted:
            return
        async with self._database.transaction() as conn:
            await self._role.fence(conn)
            ours = await stored.block_hash(conn, mark.number)
            if ours is not None and ours != mark.hash:
                # Found out by the follower itself, which decides by more than this.
                return
            await reorg.note_final(conn, number=mark.number)
        self.height = self._noted = mark.number
