"""The node behind the sockets: answers calls, moves its head, tells subscribers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from indexer.devnode import messages
from indexer.devnode.admin import AdminMethods
from indexer.devnode.chain import Chain
from indexer.devnode.config import DevnodeConfig
from indexer.devnode.faults import Faults
from indexer.devnode.messages import Call, Calls, Malformed, RpcFailure
from indexer.devnode.methods import ChainMethods, Handler, NotGenerated

# How long making blocks may keep the event loop from everything else.
_SLICE_SECONDS = 0.01

# What newHeads leaves out of a block.
_NOT_IN_HEADER = ("transactions", "uncles", "withdrawals", "size")

_OBJECT = msgspec.json.Decoder(dict[str, Any])


class Counters:
    """What a node was asked and how much it sent, since its start."""

    def __init__(self) -> None:
        self.methods: Counter[str] = Counter()
        self.requests = 0
        self.batches = 0
        self.bytes_in = 0
        self.bytes_out = 0

    def shown(self) -> dict[str, Any]:
        """Return the counters as JSON has them."""
        return {
            "methods": dict(self.methods),
            "requests": self.requests,
            "batches": self.batches,
            "bytesIn": self.bytes_in,
            "bytesOut": self.bytes_out,
        }


class Node:
    """A chain with methods, faults, counters and subscribers to its heads."""

    def __init__(self, config: DevnodeConfig) -> None:
        self.chain = Chain(config)
        self.faults = Faults(config.faults)
        self.counters = Counters()
        self._listeners: list[Callable[[bytes], None]] = []
        self._making = asyncio.Lock()
        self._table: dict[str, Handler] = {
            **ChainMethods(self.chain).table,
            **AdminMethods(self).table,
        }

    async def generate(self, height: int) -> None:
        """Make the chain up to a height, letting others run in between."""
        async with self._making:
            while self.chain.generated <= height:
                self.chain.generate(height, seconds=_SLICE_SECONDS)
                await asyncio.sleep(0)

    def mine(self, count: int = 1) -> None:
        """Move the head up by ``count`` blocks; callable from any thread."""
        first = self.chain.head + 1
        self.chain.mine(count)
        self._announce(first)

    def reorg(self, depth: int) -> None:
        """Replace the last ``depth`` blocks by one more; callable from any thread."""
        self._announce(self.chain.reorg(depth) + 1)

    def listen(self, listener: Callable[[bytes], None]) -> Callable[[], None]:
        """Call ``listener`` with the JSON of each new header.

        It is called in the thread that moved the head. Returns what ends it.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def advance(self) -> None:
        """Move the head up by one, making the block first if someone listens."""
        if self._listeners:
            await self.generate(self.chain.head + 1)
        self.mine()

    @property
    def has_listeners(self) -> bool:
        """Return whether anybody wants to hear of new heads."""
        return bool(self._listeners)

    async def reply(self, calls: Calls, connection: Mapping[str, Handler]) -> bytes:
        """Return the reply to a call or a batch, empty if none is due.

        ``connection`` holds the methods that only make sense on a connection.
        """
        if isinstance(calls, Sequence):
            self.counters.batches += 1
            if not calls:
                return messages.error(b"null", messages.INVALID_REQUEST, "empty batch")
            parts = [await self._reply_one(call, connection) for call in calls]
            shown = b",".join([part for part in parts if part])
            return b"[" + shown + b"]" if shown else b""
        return await self._reply_one(calls, connection)

    async def _reply_one(
        self, call: Call | Malformed, connection: Mapping[str, Handler]
    ) -> bytes:
        if isinstance(call, Malformed):
            return messages.error(call.id, messages.INVALID_REQUEST, "invalid request")
        self.counters.methods[call.method] += 1
        call_id = bytes(call.id)
        while True:
            try:
                answer = self._answer(call, call_id, connection)
            except NotGenerated as missing:
                await self.generate(missing.height)
            else:
                return answer if call_id else b""

    def _answer(
        self, call: Call, call_id: bytes, connection: Mapping[str, Handler]
    ) -> bytes:
        method, params = call.method, call.params
        if self.faults.active:
            fault = self.faults.answer(method)
            if fault is not None:
                if fault.kind == "null":
                    return messages.result(call_id, b"null")
                return messages.error(call_id, fault.code, fault.message)
        try:
            handler = self._table.get(method) or connection.get(method)
            if handler is None:
                raise RpcFailure(
                    messages.METHOD_NOT_FOUND,
                    f"the method {method} does not exist/is not available",
                )
            arguments = [] if params is None else params
            if not isinstance(arguments, list):
                raise RpcFailure(messages.INVALID_PARAMS, "non-array args")
            return messages.result(call_id, handler(arguments))
        except RpcFailure as failure:
            return messages.error(call_id, failure.code, failure.message)

    def _announce(self, first: int) -> None:
        if not self._listeners:
            return
        for height in range(first, self.chain.head + 1):
            header = self.header_json(height)
            for listener in tuple(self._listeners):
                listener(header)

    def header_json(self, height: int) -> bytes:
        """Return the header of a block as newHeads gives it."""
        header = _OBJECT.decode(self.chain.block_json(height, False))
        for name in _NOT_IN_HEADER:
            del header[name]
        return msgspec.json.encode(header)
