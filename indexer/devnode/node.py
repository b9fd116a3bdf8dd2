"""The node behind the sockets: answers calls, moves its head, tells subscribers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

import msgspec

from indexer.devnode import messages
from indexer.devnode.admin import AdminMethods
from indexer.devnode.chain import Chain
from indexer.devnode.config import DevnodeConfig
from indexer.devnode.counters import Counters
from indexer.devnode.faults.exchange import Answered, Exchange
from indexer.devnode.faults.force import Faults
from indexer.devnode.faults.kind import Response
from indexer.devnode.messages import Call, Calls, Malformed, RpcFailure
from indexer.devnode.methods import ChainMethods, Handler, NotGenerated
from indexer.devnode.served import ReadableChain, ServedChain

# How long making blocks may keep the event loop from everything else.
_SLICE_SECONDS = 0.01
# And answering a batch: a node with threads would answer small requests meanwhile.
_BATCH_SLICE_SECONDS = 0.001

# What newHeads leaves out of a block.
_NOT_IN_HEADER = ("transactions", "uncles", "withdrawals", "size")

_OBJECT = msgspec.json.Decoder(dict[str, Any])

_NO_CALL = "invalid request"

Table = dict[str, Handler]


class Node:
    """A chain with methods, faults, counters and subscribers to its heads.

    Without a ``chain`` it makes the one of its settings.
    """

    def __init__(self, config: DevnodeConfig, chain: ServedChain | None = None) -> None:
        self.chain: ServedChain = Chain(config) if chain is None else chain
        self.faults = Faults(self.chain, config.faults, config.schedule)
        self.counters = Counters()
        self._listeners: list[Callable[[bytes], None]] = []
        self._making = asyncio.Lock()
        self._slices = asyncio.Lock()
        self._table: Table = {
            **ChainMethods(self.chain).table,
            **AdminMethods(self).table,
        }
        self._views: dict[ReadableChain, Table] = {}

    async def generate(self, height: int, chain: ReadableChain | None = None) -> None:
        """Make a whole chain up to a height, letting others run in between."""
        made = self.chain if chain is None else chain
        async with self._making:
            while made.generated <= height:
                made.generate(height, seconds=_SLICE_SECONDS)
                await asyncio.sleep(0)

    async def reach(self, height: int, chain: ReadableChain | None = None) -> None:
        """Make the block at a height, letting others run in between."""
        made = self.chain if chain is None else chain
        async with self._making:
            while not made.is_made(height):
                made.reach(height, seconds=_SLICE_SECONDS)
                await asyncio.sleep(0)

    async def _make(self, missing: NotGenerated) -> None:
        make = self.generate if missing.whole else self.reach
        await make(missing.height, missing.chain)

    def mine(self, count: int = 1) -> None:
        """Move the head up by ``count`` blocks; callable from any thread."""
        first = self.chain.head + 1
        self.chain.mine(count)
        self._announce(first)

    def reorg(self, depth: int, *, moved: bool = False) -> None:
        """Replace the last ``depth`` blocks by one more; callable from any thread.

        With ``moved`` the new blocks hold the transactions of the old ones, in
        another order and mostly at other heights; otherwise others.
        """
        self._announce(self.chain.reorg(depth, moved=moved) + 1)

    def listen(self, listener: Callable[[bytes], None]) -> Callable[[], None]:
        """Call ``listener`` with the JSON of each new header.

        It is called in the thread that moved the head. Returns what ends it.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def advance(self) -> None:
        """Move the head up by one, making the block first if someone listens."""
        if self._listeners:
            await self.reach(self.chain.head + 1)
        self.mine()

    @property
    def has_listeners(self) -> bool:
        """Return whether anybody wants to hear of new heads."""
        return bool(self._listeners)

    async def reply(self, calls: Calls, connection: Mapping[str, Handler]) -> bytes:
        """Return the true reply to a call or a batch, empty if none is due.

        ``connection`` holds the methods that only make sense on a connection.
        """
        table = {**self._table, **connection}
        if not isinstance(calls, Sequence):
            return await self._reply_one(calls, table)
        if not calls:
            return messages.error(b"null", messages.INVALID_REQUEST, "empty batch")
        parts = []
        turn = monotonic()
        for call in calls:
            try:
                parts.append(_reply(call, table))
            except NotGenerated:
                parts.append(await self._reply_one(call, table))
            if monotonic() > turn + _BATCH_SLICE_SECONDS:
                turn = await self._next_slice()
        shown = b",".join([part for part in parts if part])
        return b"[" + shown + b"]" if shown else b""

    async def _next_slice(self) -> float:
        """Let one batch go on in each round of the loop, and all else in between."""
        async with self._slices:
            await asyncio.sleep(0)
        return monotonic()

    async def _reply_one(self, call: Call | Malformed, table: Table) -> bytes:
        while True:
            try:
                return _reply(call, table)
            except NotGenerated as missing:
                await self._make(missing)

    async def reply_under(
        self, exchange: Exchange, calls: Calls, connection: Mapping[str, Handler]
    ) -> Response:
        """Return what a request is answered with under faults."""
        batch = isinstance(calls, Sequence)
        members = calls if isinstance(calls, Sequence) else [calls]
        table = {**self._seen_through(exchange), **connection}
        answered = [await self._answered(call, table) for call in members]
        return exchange.finish(answered, batch=batch)

    def _seen_through(self, exchange: Exchange) -> Table:
        """Return the methods of the backend that answers this request."""
        view = exchange.view()
        if view is None:
            return self._table
        if view not in self._views:
            self._views[view] = {**self._table, **ChainMethods(view).table}
        return self._views[view]

    async def _answered(self, call: Call | Malformed, table: Table) -> Answered:
        call_id = bytes(call.id)
        if isinstance(call, Malformed):
            failure = RpcFailure(messages.INVALID_REQUEST, _NO_CALL)
            return Answered(None, call_id, failure)
        while True:
            try:
                return Answered(call, call_id, _result(call, table))
            except NotGenerated as missing:
                await self._make(missing)
            except RpcFailure as failure:
                return Answered(call, call_id, failure)

    def _announce(self, first: int) -> None:
        if not self._listeners:
            return
        heights: Sequence[int] = range(first, self.chain.head + 1)
        if self.faults.active:
            heights = self.faults.announced(heights)
        for height in heights:
            header = self.header_json(height)
            for listener in tuple(self._listeners):
                listener(header)

    def header_json(self, height: int) -> bytes:
        """Return the header of a block as newHeads gives it."""
        header = _OBJECT.decode(self.chain.block_json(height, False))
        for name in _NOT_IN_HEADER:
            header.pop(name, None)
        return msgspec.json.encode(header)


def _reply(call: Call | Malformed, table: Table) -> bytes:
    """Return the reply to one call, empty for a notification."""
    call_id = bytes(call.id)
    if isinstance(call, Malformed):
        return messages.error(call_id, messages.INVALID_REQUEST, _NO_CALL)
    try:
        reply = messages.result(call_id, _result(call, table))
    except RpcFailure as failure:
        reply = messages.error(call_id, failure.code, failure.message)
    return reply if call_id else b""


def _result(call: Call, table: Table) -> bytes:
    """Return the JSON of a call's result.

    Raises:
        RpcFailure: there is none.
        NotGenerated: there will be once the chain is made so far.
    """
    handler = table.get(call.method)
    if handler is None:
        raise RpcFailure(
            messages.METHOD_NOT_FOUND,
            f"the method {call.method} does not exist/is not available",
        )
    params = [] if call.params is None else call.params
    if not isinstance(params, list):
        raise RpcFailure(messages.INVALID_PARAMS, "non-array args")
    return handler(params)
