"""One WebSocket connection: calls, batches, and subscriptions to new heads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web

from indexer.devnode import messages
from indexer.devnode.faults.exchange import Exchange
from indexer.devnode.messages import Calls, RpcFailure
from indexer.devnode.methods import Handler
from indexer.devnode.sending import abort
from indexer.tasks import end_tasks

if TYPE_CHECKING:
    from indexer.devnode.node import Node


class WebSocketSession:
    """What one client says and hears.

    Messages are answered as they are done, like geth does, so a slow one holds
    up no other. All that goes out goes through one queue, and a subscription
    begins when its reply is in it: no notification overtakes it.
    """

    def __init__(
        self, node: Node, socket: web.WebSocketResponse, request: web.Request
    ) -> None:
        self._node = node
        self._socket = socket
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._subscriptions: dict[str, Callable[[], None]] = {}
        self._subscribed = 0

    async def run(self) -> None:
        """Serve the client until it leaves."""
        await self._socket.prepare(self._request)
        writer = asyncio.create_task(self._write())
        answering: set[asyncio.Task[None]] = set()
        try:
            async for message in self._socket:
                if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                    data = message.data
                    body = data.encode() if isinstance(data, str) else data
                    task = asyncio.create_task(self._serve(body))
                    answering.add(task)
                    task.add_done_callback(answering.discard)
        finally:
            for end in self._subscriptions.values():
                end()
            self._subscriptions.clear()
            await end_tasks(writer, *answering)

    async def close(self) -> None:
        """Say goodbye to the client."""
        await self._socket.close(code=1001)

    async def _write(self) -> None:
        while True:
            data = await self._outgoing.get()
            try:
                await self._socket.send_frame(data, WSMsgType.TEXT)
            except ConnectionError:
                return
            self._node.counters.bytes_out += len(data)

    async def _serve(self, body: bytes) -> None:
        counters = self._node.counters
        counters.requests += 1
        counters.bytes_in += len(body)
        try:
            calls = messages.parse(body)
        except RpcFailure as failure:
            self._say(messages.error(b"null", failure.code, failure.message))
            return
        counters.asked(calls)
        exchange = self._node.faults.meet(calls) if self._node.faults.active else None
        if exchange is not None and await self._refused(exchange, calls):
            return
        started: list[str] = []
        table: dict[str, Handler] = {
            "eth_subscribe": partial(self._subscribe, started),
            "eth_unsubscribe": self._unsubscribe,
        }
        if exchange is None:
            self._say(await self._node.reply(calls, table))
        else:
            response = await self._node.reply_under(exchange, calls, table)
            if response.stop >= 0:
                abort(self._request.transport)
                return
            await asyncio.sleep(response.pieces * response.seconds)
            self._say(response.body)
        for name in started:
            if name in self._subscriptions:
                listener = partial(self._notify, name)
                self._subscriptions[name] = self._node.listen(listener)

    async def _refused(self, exchange: Exchange, calls: Calls) -> bool:
        """Let happen what befalls a whole message; return whether that is all."""
        for act in exchange.acts(messages.ids(calls)):
            await asyncio.sleep(act.wait)
            if act.end == "silence":
                return True
            if act.status == 200:
                self._say(act.body)
                return True
            if act.end or act.status:
                # There is no status to give inside a WebSocket.
                abort(self._request.transport, reset=act.end == "reset")
                return True
        return False

    def _say(self, data: bytes) -> None:
        if data:
            self._outgoing.put_nowait(data)

    def _subscribe(self, started: list[str], params: list[Any]) -> bytes:
        if params[:1] != ["newHeads"]:
            raise RpcFailure(
                messages.METHOD_NOT_FOUND, "only newHeads can be subscribed to"
            )
        self._subscribed += 1
        name = f"{self._subscribed:#x}"
        self._subscriptions[name] = _nothing
        started.append(name)
        return b'"%b"' % name.encode()

    def _unsubscribe(self, params: list[Any]) -> bytes:
        name = params[0] if params else None
        end = self._subscriptions.pop(name, None) if isinstance(name, str) else None
        if end is None:
            raise RpcFailure(messages.SERVER_ERROR, "subscription not found")
        end()
        return b"true"

    def _notify(self, name: str, header: bytes) -> None:
        """Queue a notification, from whatever thread moved the head."""
        self._loop.call_soon_threadsafe(self._say, messages.notification(name, header))


def _nothing() -> None:
    """End a subscription that has not begun."""
