"""The follower's role: held by one process, fenced by a token, taken over in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID

from indexer.db.connection import Connection, Database
from indexer.errors import IndexerError, LeaseLost
from indexer.jobs import roles
from indexer.jobs.reaper import end_silent_copies
from indexer.tasks import end_tasks

ROLE = "follower"

# A standby looks again this often at least: a holder that leaves on purpose gives the
# role back before its lease is over.
_LOOK_SECONDS = 1.0
_SHORTEST_LOOK_SECONDS = 0.02

log = logging.getLogger(__name__)


class Role:
    """One holding of the role after the other.

    While it is held a task of its own renews it, so that a slow node does not make
    two followers take it from each other.
    """

    def __init__(self, database: Database, *, holder: str, lease: timedelta) -> None:
        self._database = database
        self._holder = holder
        self._lease = lease
        self._token: UUID | None = None
        self._waits_for: str | None = None
        self.is_resting = False

    @property
    def is_held(self) -> bool:
        """Whether the role is ours, as far as is known here; fences know better."""
        return self._token is not None

    @property
    def lease(self) -> timedelta:
        """For how long a holder that is silent keeps the role."""
        return self._lease

    async def claim(self) -> float | None:
        """Take the role; return None, or in how many seconds to ask again."""
        async with self._database.connection() as conn:
            # A holder that is stopped in the middle of a COPY has its row locked.
            await end_silent_copies(conn, silence=self._lease)
            self._token = await roles.claim_role(
                conn, name=ROLE, holder=self._holder, lease=self._lease
            )
            if self._token is not None:
                self._waits_for = None
                return None
            other = await roles.role_holder(conn, name=ROLE)
        if other is None:
            return _SHORTEST_LOOK_SECONDS
        if other.holder != self._waits_for:
            self._waits_for = other.holder
            log.info("%s follows already; standing by", other.holder)
        left = max(other.left.total_seconds(), 0.0) + _SHORTEST_LOOK_SECONDS
        return min(left, _LOOK_SECONDS)

    async def fence(self, conn: Connection) -> None:
        """Hold and renew the role for the caller's transaction, as its first lock.

        Raises LeaseLost where it is not ours; nothing may be written then.
        """
        if self._token is None:
            raise LeaseLost(f"the role {ROLE} is not held")
        await roles.fence_role(conn, name=ROLE, token=self._token, lease=self._lease)

    def drop(self) -> None:
        """Take note that it is lost."""
        self._token = None

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Renew it while the body runs, and give it back at the end.

        Not while ``is_resting``: then a standby may have it once the lease is over.
        """
        keeper = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            await end_tasks(keeper)
            await self.give_back()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 3)
            token = self._token
            if token is None or self.is_resting:
                continue
            try:
                async with self._database.connection() as conn:
                    await self.fence(conn)
            except LeaseLost:
                if self._token == token:
                    self.drop()
            except IndexerError as error:
                log.debug("could not renew the follower's role: %s", error)

    async def give_back(self) -> None:
        """Let a standby have it at once."""
        if self._token is None:
            return
        try:
            async with self._database.connection() as conn:
                await roles.release_role(conn, name=ROLE, token=self._token)
        except IndexerError as error:
            log.warning("could not give the follower's role back: %s", error)
        self._token = None
