"""Wake-ups: LISTEN on a connection of its own, as a hint to look for jobs.

A notification is not a job and may be lost, so there is always a poll besides. Every
time the subscription is made anew it comes before that poll: the other order loses
what is enqueued in between.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from time import monotonic
from typing import Literal
from uuid import uuid4

import psycopg

from indexer.db.connection import Connection, behind_pooler, connect
from indexer.db.failures import is_retryable, translated
from indexer.db.queries import load
from indexer.errors import DatabaseUnavailable

_LOG = logging.getLogger(__name__)

_QUERIES = load("listen")
_LISTEN = _QUERIES["listen_jobs"]
_NOTIFY_ONESELF = _QUERIES["notify_oneself"]
_CHANNELS = _QUERIES["listened_channels"]

Reason = Literal["notified", "listening", "poked", "timeout"]

PING_INTERVAL = timedelta(seconds=10)
_REPLY_SECONDS = 5.0
# A pooler may be taken out of the way while we run; asking costs one connection.
_RETRY_LISTEN_SECONDS = 300.0


class WakeUps:
    """Tells a worker when to look for jobs.

    :meth:`run` keeps the subscription and raises when it is lost: whoever supervises
    it runs it again. :meth:`wait` works all the while, on the timeout alone if need be.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str,
        ping_interval: timedelta = PING_INTERVAL,
    ) -> None:
        self._url = url
        self._schema = schema
        self._ping = ping_interval.total_seconds()
        self._event = asyncio.Event()
        self._reason: Reason = "timeout"
        self._said_poll_only = False
        self.is_listening = False

    async def wait(self, seconds: float) -> Reason:
        """Return why to look now: at once if there was a wake-up since the last call.

        After ``seconds`` it is "timeout", which is the poll.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return "timeout"
        self._event.clear()
        return self._reason

    def wake(self, reason: Reason = "poked") -> None:
        """End the current or the next :meth:`wait`."""
        # A notification is still one when a job ends in the same moment.
        if reason != "poked" or not self._event.is_set():
            self._reason = reason
        self._event.set()

    async def run(self) -> None:
        """Listen until the connection is lost.

        Raises DatabaseUnavailable then. Where LISTEN cannot work it says so once and
        returns after a while, to be asked again.
        """
        conn = await connect(
            self._url,
            schema=self._schema,
            application="indexer listen",
            prepared=False,
        )
        try:
            with translated("listening for new jobs"):
                obstacle = await self._subscribe(conn)
                if obstacle is None:
                    await self._listen(conn)
        except TimeoutError:
            raise DatabaseUnavailable(
                "listening for new jobs: the connection gave no answer"
            ) from None
        finally:
            self.is_listening = False
            await conn.close()
        self._say_poll_only(obstacle)
        await asyncio.sleep(_RETRY_LISTEN_SECONDS)

    async def _subscribe(self, conn: Connection) -> str | None:
        async with asyncio.timeout(_REPLY_SECONDS):
            if await behind_pooler(conn):
                return "a connection pooler stands in between"
        try:
            async with asyncio.timeout(_REPLY_SECONDS):
                await _LISTEN.run(conn)
        except psycopg.Error as error:
            if is_retryable(error):
                raise
            return str(error).strip()
        if not await self._hears_itself(conn):
            return "a notification sent to itself did not arrive"
        self.is_listening = True
        self.wake("listening")
        return None

    async def _hears_itself(self, conn: Connection) -> bool:
        mine = f"self-test {uuid4()}"
        async with asyncio.timeout(_REPLY_SECONDS):
            await _NOTIFY_ONESELF.run(conn, payload=mine)
        end = monotonic() + _REPLY_SECONDS
        while (left := end - monotonic()) > 0:
            async for note in conn.notifies(timeout=left, stop_after=1):
                if note.payload == mine:
                    return True
        return False

    async def _listen(self, conn: Connection) -> None:
        pinged = monotonic()
        while True:
            until_ping = max(0.0, pinged + self._ping - monotonic())
            async for note in conn.notifies(timeout=until_ping, stop_after=1):
                if note.payload == self._schema:
                    self.wake("notified")
            if monotonic() >= pinged + self._ping:
                async with asyncio.timeout(_REPLY_SECONDS):
                    channels = await _CHANNELS.rows(conn)
                if ("jobs_ready",) not in channels:
                    raise DatabaseUnavailable("the subscription to new jobs is gone")
                pinged = monotonic()

    def _say_poll_only(self, obstacle: str | None) -> None:
        if not self._said_poll_only:
            self._said_poll_only = True
            _LOG.warning(
                "LISTEN does not work here (%s): new jobs are found by polling; give "
                "a direct connection with --listen-url",
                obstacle,
            )
