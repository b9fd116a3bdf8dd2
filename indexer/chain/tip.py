"""Where the chain ends: head, finalized height, and hints that it grew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from indexer.chain.decode import decode_header, decode_quantity
from indexer.chain.endpoint import Endpoint
from indexer.chain.endpoints import Endpoints
from indexer.chain.envelope import Call
from indexer.chain.rpc import SubscriptionUnsupported
from indexer.errors import NotYetAvailable, RpcError, RpcUnavailable

_BLOCK: Final = "eth_getBlockByNumber"
_HEAD: Final = "eth_blockNumber"

# A poll costs a node a fraction of a millisecond; a tenth of the block time adds
# little to the lag and few requests, and chains of 50 ms blocks exist.
_SHORTEST_POLL: Final = 0.05
_LONGEST_POLL: Final = 1.0
_POLLS_PER_BLOCK: Final = 10
# newHeads are dropped at times, so the head is asked for nevertheless.
_BESIDE_HINTS: Final = 1.0


class Mark(NamedTuple):
    """A height and the hash a node gives for it."""

    number: int
    hash: bytes


async def head_of(endpoint: Endpoint) -> int:
    """Return the height of the newest block this endpoint has.

    It may be lower than before: nodes lag, and load balancers alternate.
    """
    return decode_quantity(await endpoint.call(_HEAD, []), method=_HEAD)


async def head_number(endpoints: Endpoints) -> int:
    """Return the height of the newest block an endpoint has."""
    return await endpoints.run(head_of)


async def marks(endpoint: Endpoint, heights: Sequence[int]) -> list[Mark]:
    """Return the hash that an endpoint gives for each height.

    Raises NotYetAvailable for a height it has no block for.
    """
    calls = [Call(_BLOCK, (hex(height), False)) for height in heights]
    found = []
    for height, raw in zip(heights, await endpoint.batch(calls), strict=True):
        header = decode_header(raw, number=height, method=_BLOCK)
        if header is None:
            raise NotYetAvailable(
                f"{endpoint.name} has no block {height} (any more)", block_number=height
            )
        found.append(Mark(header.number, header.hash))
    return found


async def finalized_mark(endpoint: Endpoint, depth: int | None) -> Mark | None:
    """Return the highest block that one endpoint calls final, with its hash.

    As :func:`finalized_number` otherwise.
    """
    try:
        raw = await endpoint.call(_BLOCK, ["finalized", False])
    except (RpcError, RpcUnavailable) as error:
        # Some nodes answer the tag as a block they cannot find.
        if not isinstance(error, RpcError) and not isinstance(
            error.__cause__, RpcError
        ):
            raise
        header = None
    else:
        header = decode_header(raw, number=None, method=_BLOCK)
    if header is not None:
        return Mark(header.number, header.hash)
    if depth is None:
        return None
    below = await head_of(endpoint) - depth
    return (await marks(endpoint, [below]))[0] if below >= 0 else None


async def finalized_number(endpoints: Endpoints, depth: int | None) -> int | None:
    """Return the height up to which nothing is replaced any more.

    By the node's ``finalized`` tag; where it has none, ``depth`` below its head;
    ``None`` where there is neither.
    """

    async def ask(endpoint: Endpoint) -> int | None:
        mark = await finalized_mark(endpoint, None)
        return None if mark is None else mark.number

    finalized = await endpoints.run(ask)
    if finalized is not None or depth is None:
        return finalized
    below = await head_number(endpoints) - depth
    return below if below >= 0 else None


class HeadWatcher:
    """Says when there may be a new head: a hint, to look and not to trust."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._hints: AsyncIterator[None] | None = None
        self._head: int | None = None
        self._asked_at = float("-inf")
        self._changed_at = 0.0
        self._block_seconds = 0.0

    async def wait(self, seconds: float) -> None:
        """Return when there may be a new head, after ``seconds`` at the latest.

        May be cancelled. Raises RpcUnavailable and what else asking for the head
        may raise.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        if await self._subscribe():
            # What came before the subscription was not announced.
            return
        # With a subscription the head is asked for only where no hint comes; without
        # one not sooner than it is due, though a load balancer's heads go to and fro.
        pause = self._interval()
        if self._hints is None:
            pause = max(0.0, self._asked_at + pause - clock())
        while True:
            left = until - clock()
            if left <= 0 or await self._hinted(min(left, pause)):
                return
            if await self._has_changed():
                return
            pause = self._interval()

    async def _subscribe(self) -> bool:
        """Subscribe where it is possible; return whether that was done just now."""
        if self._hints is not None:
            return False
        for endpoint in self._endpoints.all:
            if endpoint.breaker.wait_seconds():
                continue
            try:
                self._hints = await endpoint.transport.subscribe_new_heads()
            except (SubscriptionUnsupported, RpcUnavailable):
                continue
            return True
        return False

    async def _hinted(self, seconds: float) -> bool:
        """Wait for a hint, or just wait; return whether one came."""
        if self._hints is None:
            await asyncio.sleep(seconds)
            return False
        try:
            async with asyncio.timeout(seconds):
                await anext(self._hints)
        except TimeoutError:
            return False
        except RpcUnavailable:
            self._hints = None
            return False
        return True

    async def _has_changed(self) -> bool:
        now = self._asked_at = asyncio.get_running_loop().time()
        head = await head_number(self._endpoints)
        if head == self._head:
            return False
        if self._head is not None and head > self._head:
            each = (now - self._changed_at) / (head - self._head)
            self._block_seconds = (
                each
                if not self._block_seconds
                else (0.8 * self._block_seconds + 0.2 * each)
            )
        self._head = head
        self._changed_at = now
        return True

    def _interval(self) -> float:
        if self._hints is not None:
            return _BESIDE_HINTS
        poll = self._block_seconds / _POLLS_PER_BLOCK
        return min(_LONGEST_POLL, max(_SHORTEST_POLL, poll))
