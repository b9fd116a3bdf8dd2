"""Which of several nodes is followed: the one that has most of the chain.

A node that lags, sits on a fork that is shorter, or announces what it cannot give
would otherwise decide what the tip is, just because it is the first in the list.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

from indexer.chain.endpoints import Endpoint, Endpoints
from indexer.chain.limits import Clock
from indexer.chain.tip import head_of
from indexer.errors import (
    ChainDataError,
    RpcError,
    RpcRateLimited,
    RpcUnavailable,
)

T = TypeVar("T")

# How often the others are asked as well: a request a second to each is no load, and
# a lagging node costs a second of lag at most.
_LOOK_AROUND_SECONDS: Final = 1.0
# Whoever takes longer than this to say its head is not to be waited for at the tip.
_ANSWER_SECONDS: Final = 1.0
_SILENCE_SECONDS: Final = 30.0

_FAILURES: Final = (
    RpcUnavailable,
    RpcRateLimited,
    ChainDataError,
    RpcError,
    TimeoutError,
)


class Head(NamedTuple):
    """The height of the newest block that an endpoint has."""

    endpoint: Endpoint
    number: int


class Lead:
    """The endpoint that is followed, until another has more."""

    def __init__(self, endpoints: Endpoints, clock: Clock = time.monotonic) -> None:
        self._endpoints = endpoints
        self._clock = clock
        self._current = endpoints.all[0]
        self._looked_at = float("-inf")
        self._avoided_until: dict[Endpoint, float] = {}

    @property
    def current(self) -> Endpoint:
        """The endpoint that is followed."""
        return self._current

    async def ask(
        self, endpoint: Endpoint, work: Callable[[Endpoint], Awaitable[T]]
    ) -> T:
        """Do ``work`` with one endpoint; it is left alone for a while if it fails."""
        try:
            return await self._endpoints.ask(endpoint, work)
        except _FAILURES:
            self.avoid(endpoint, _LOOK_AROUND_SECONDS)
            raise

    def follow(self, endpoint: Endpoint) -> None:
        """Take an endpoint as the one that is followed."""
        self._current = endpoint

    def avoid(self, endpoint: Endpoint, seconds: float) -> None:
        """Ask others first for some time."""
        self._avoided_until[endpoint] = self._clock() + seconds
        self._looked_at = float("-inf")

    async def head(self, *, wanted: int) -> Head:
        """Return the head of the endpoint that is followed.

        Where another has more it is followed from now on: looked for about once a
        second, and at once where the current one fails. ``wanted`` is the height
        that would be news. Raises what asking the only one left raises.
        """
        if len(self._endpoints.all) == 1:
            return await self._only()
        found = None
        if not self._is_avoided(self._current):
            found = await self._head_or_none(self._current)
        is_due = self._clock() - self._looked_at >= _LOOK_AROUND_SECONDS
        if found is not None and not is_due:
            return found
        heads = await self.look_around()
        if found is None or heads[0].number > max(found.number, wanted - 1):
            found = heads[0]
        self._current = found.endpoint
        return found

    async def look_around(self) -> list[Head]:
        """Return the heads of all that answer, the highest first, at least one.

        Among equals the one that is followed stands first, then by preference.
        Raises what asking raises where none answers.
        """
        self._looked_at = self._clock()
        willing = [
            each
            for each in self._endpoints.all
            if not self._is_avoided(each) and not each.breaker.wait_seconds()
        ]
        asked = await asyncio.gather(*map(self._head_or_none, willing))
        heads = [each for each in asked if each is not None]
        heads.sort(key=lambda each: each.endpoint is not self._current)
        heads.sort(key=lambda each: each.number, reverse=True)
        return heads or [await self._only()]

    def _is_avoided(self, endpoint: Endpoint) -> bool:
        return self._clock() < self._avoided_until.get(endpoint, 0.0)

    async def _only(self) -> Head:
        async def ask(endpoint: Endpoint) -> Head:
            return Head(endpoint, await head_of(endpoint))

        return await self._endpoints.run(ask)

    async def _head_or_none(self, endpoint: Endpoint) -> Head | None:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return Head(endpoint, await self._endpoints.ask(endpoint, head_of))
        except TimeoutError:
            self.avoid(endpoint, _SILENCE_SECONDS)
        except _FAILURES:
            self.avoid(endpoint, _LOOK_AROUND_SECONDS)
        return None
