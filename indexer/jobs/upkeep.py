"""What every worker does beside its jobs: reap, make partitions, drop old ones."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random

from indexer.db.connection import Database
from indexer.db.statistics import analyze_parents
from indexer.jobs.history import age_out_failed, drop_old, ensure_history
from indexer.jobs.observer import Observer
from indexer.jobs.reaper import Reaper
from indexer.jobs.settings import WorkerSettings
from indexer.jobs.workers import retire

# A claim is taken back at most this part of a lease after it ended.
_REAPS_PER_LEASE = 4
# Partitions are made days ahead, so many passes may fail before one is missed.
_HOUSE_SECONDS = 3600.0
# An entry this many leases old is a process that died, not one that sleeps.
UNSEEN_LEASES = 10
# Workers share this: whoever finds the statistics older renews them.
_STATISTICS_AGE = timedelta(days=1)


class Upkeep:
    """The timers of a worker; safe to run in any number of them at once."""

    def __init__(
        self,
        database: Database,
        settings: WorkerSettings,
        *,
        observer: Observer,
        random: Random,
    ) -> None:
        self._database = database
        self._settings = settings
        self._observer = observer
        self._random = random
        self._reaper = Reaper(
            lease=settings.lease, max_lost_leases=settings.max_lost_leases
        )

    def hold_reaper(self) -> None:
        """Reap nothing for a lease: the database was out of reach."""
        self._reaper.hold()

    async def reap(self) -> None:
        """Take back expired claims, again and again.

        Begun, and begun again after an error, where the database may just have come
        back: whoever holds a claim has a lease to say so. The server's start does
        not tell, it is long ago where a standby was promoted or a network mended.
        """
        interval = self._settings.lease.total_seconds() / _REAPS_PER_LEASE
        self.hold_reaper()
        while True:
            async with self._database.connection() as conn:
                reaped = await self._reaper.tick(conn)
            if reaped:
                self._observer.reaped(reaped)
            await asyncio.sleep(interval * self._random.uniform(0.8, 1.0))

    async def keep_house(self) -> None:
        """Do what keeps the tables in shape; `indexer maintain` does the same once."""
        while True:
            async with self._database.connection() as conn:
                await ensure_history(conn)
                await drop_old(conn, retention=self._settings.history_retention)
                await age_out_failed(conn, retention=self._settings.history_retention)
                await retire(conn, unseen=self._settings.lease * UNSEEN_LEASES)
                await analyze_parents(conn, older_than=_STATISTICS_AGE)
            await asyncio.sleep(_HOUSE_SECONDS * self._random.uniform(0.8, 1.0))
