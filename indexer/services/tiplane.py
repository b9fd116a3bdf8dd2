"""A process of a worker's own for the tip's jobs, while somebody follows the tip.

A backfill keeps a worker's event loop so busy that a job of the tip, which goes
through it a dozen times, takes seconds; in a process of its own it takes milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from time import monotonic
from typing import Final

from indexer.config import Config
from indexer.db.connection import Database
from indexer.jobs.lanes import Lanes
from indexer.jobs.patience import keep_going
from indexer.jobs.roles import role_holder
from indexer.services.follow.role import ROLE
from indexer.services.supervise import Supervisor
from indexer.tasks import end_tasks

_LOG = logging.getLogger(__name__)

# A follower comes and goes rarely; a row of a small table is no load.
_LOOK_SECONDS: Final = 1.0
# One that is started anew, or replaced by its standby, finds the process still there.
_LINGER_SECONDS: Final = 60.0


def tip_config(config: Config) -> Config:
    """Return the settings of the process: the tip asks for little at a time."""
    return config.model_copy(
        update={
            "processes": 1,
            "concurrency": -(-config.concurrency // 2),
            # Its parent answers for it: the port beside may be another program's.
            "metrics_port": None,
        }
    )


class TipLane:
    """Leaves the tip's jobs to a process as long as they may come.

    ``start`` makes the process, not running yet; None where another worker of the
    same program has it.
    """

    def __init__(
        self, database: Database, lanes: Lanes, start: Callable[[], Supervisor] | None
    ) -> None:
        self.ended: list[Supervisor] = []
        self._database = database
        self._lanes = lanes
        self._start = start
        self._process: Supervisor | None = None
        self._running: asyncio.Task[None] | None = None
        self._followed_at = float("-inf")
        self._is_stopped = self._is_told = False

    def request_stop(self) -> None:
        """Let the process finish its jobs; called again: hand them back now."""
        self._is_stopped = True
        if self._process is not None:
            self._process.request_stop()
            self._is_told = True

    @asynccontextmanager
    async def attended(self) -> AsyncIterator[None]:
        """Look after the process while the body runs, then see it end."""
        looking = asyncio.create_task(self._look_forever())
        try:
            yield
        finally:
            await end_tasks(looking)
            await self._end()

    async def _look_forever(self) -> None:
        while True:
            await keep_going("looking for a follower", self._look, random=Random())

    async def _look(self) -> None:
        while True:
            if await self._is_followed():
                self._followed_at = monotonic()
            wanted = monotonic() - self._followed_at < _LINGER_SECONDS
            self._lanes.leaves_urgent = wanted
            if not wanted:
                await self._end()
            elif self._process is None and self._start and not self._is_stopped:
                self._begin(self._start())
            await asyncio.sleep(_LOOK_SECONDS)

    async def _is_followed(self) -> bool:
        async with self._database.connection() as conn:
            holder = await role_holder(conn, name=ROLE)
        return holder is not None and holder.left > timedelta(0)

    def _begin(self, process: Supervisor) -> None:
        _LOG.info("the tip is followed: its jobs get a process of their own")
        self._process, self._is_told = process, False
        self._running = asyncio.create_task(process.run())

    async def _end(self) -> None:
        if self._process is None or self._running is None:
            return
        if not self._is_told:
            self._process.request_stop()
            self._is_told = True
        # Not awaited itself: it is not to be cancelled with us.
        await asyncio.wait({self._running})
        self.ended.append(self._process)
        self._process = self._running = None
