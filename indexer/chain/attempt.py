"""A list of requests sent to one node in batches, cut smaller where one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

from msgspec import Raw

from indexer.chain.envelope import Call
from indexer.chain.rpc import MaybeTooLarge
from indexer.errors import (
    InconsistentResponse,
    IndexerError,
    RangeTooLarge,
    RpcRateLimited,
    RpcUnavailable,
)

_Outcomes: TypeAlias = list[Raw | IndexerError]


class Sender(Protocol):
    """Sends one batch at a time, and learns from how that went."""

    async def send_batch(self, calls: Sequence[Call]) -> _Outcomes:
        """Return each request's outcome; raises what concerns all of them."""

    def fitting(self, method: str) -> int:
        """Return how many requests of a method to send at once."""

    def refused(self, method: str, requests: int) -> None:
        """Learn from a batch that the node called too big."""

    def suspected_of(self, method: str, requests: int) -> None:
        """Learn from a batch that failed without a reason, while its halves did not."""

    def may_wait(self) -> bool:
        """Tell whether a node that asks for fewer requests is worth waiting for."""


# A node that is slowed down so often in a row does not want us.
_LIMITED_TRIES: Final = 4
# After so many single requests in a row without an answer it is the node.
_UNANSWERED: Final = 3


# Batches of one attempt under way: as many as a node is asked at once at first. The
# next is cut when one of them is answered, by what was learned from it.
_AT_ONCE: Final = 8


async def _few_of(tasks: Sequence[asyncio.Task[_Outcomes]]) -> None:
    running = [task for task in tasks if not task.done()]
    if len(running) >= _AT_ONCE:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)


class Attempt:
    """One try at some requests, at a bounded number of further ones.

    A batch that fails as one is cut in halves, down to single requests, unless the
    node plainly does not answer: n requests of which one is bad cost 2 log2(n) more,
    and a node that answers nothing log2(n) + 3.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._unanswered = 0

    async def outcomes(self, calls: Sequence[Call], tries: int = 0) -> _Outcomes:
        """Return the outcome of each request, in order."""
        size = self._sender.fitting(calls[0].method)
        if size >= len(calls):
            return await self._part(calls, tries)
        tasks: list[asyncio.Task[_Outcomes]] = []
        async with asyncio.TaskGroup() as group:
            start = 0
            while start < len(calls):
                await _few_of(tasks)
                size = self._sender.fitting(calls[start].method)
                part = calls[start : start + size]
                tasks.append(group.create_task(self._part(part, tries)))
                start += size
        return [outcome for task in tasks for outcome in task.result()]

    async def _part(self, calls: Sequence[Call], tries: int) -> _Outcomes:
        try:
            found = await self._sender.send_batch(calls)
        except RpcRateLimited as error:
            if tries >= _LIMITED_TRIES or not self._sender.may_wait():
                return [error] * len(calls)
            # Cut again: the limit may have become known by it.
            return await self.outcomes(calls, tries + 1)
        except RangeTooLarge as error:
            if len(calls) > 1:
                return await self._halves(calls, error, tries)
            found = [error]
        except IndexerError as error:
            found = [error] * len(calls)
        if len(calls) == 1:
            is_unanswered = isinstance(found[0], RpcUnavailable)
            self._unanswered = self._unanswered + 1 if is_unanswered else 0
        return found

    async def _halves(
        self, calls: Sequence[Call], error: RangeTooLarge, tries: int
    ) -> _Outcomes:
        is_plain = not isinstance(error, MaybeTooLarge)
        if is_plain:
            self._sender.refused(calls[0].method, len(calls))
        middle = len(calls) // 2
        found = await self._part(calls[:middle], tries)
        if self._unanswered >= _UNANSWERED:
            return found + found[-1:] * (len(calls) - middle)
        found += await self._part(calls[middle:], tries)
        failures = (RpcUnavailable, RangeTooLarge, InconsistentResponse)
        if not is_plain and not any(isinstance(each, failures) for each in found):
            self._sender.suspected_of(calls[0].method, len(calls))
        return found
