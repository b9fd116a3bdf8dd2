"""A node that answers as a test tells it to, over real HTTP, WebSocket and IPC."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

Method = Callable[[list[Any]], Any]
Replies = list[dict[str, Any]]


class Refusal(Exception):
    """Raised by a method: the error object to answer with."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message}


@dataclass
class FakeNode:
    """``methods`` answer calls; ``respond`` may take over a whole HTTP request.

    ``tamper`` changes the replies of a batch before they are sent. ``batches`` holds
    how many calls each request had, ``calls`` every call in the order of arrival.
    """

    methods: dict[str, Method] = field(default_factory=dict)
    respond: (
        Callable[[web.Request, Any], Awaitable[web.StreamResponse | None]] | None
    ) = None
    tamper: Callable[[Replies], Any] = lambda replies: replies
    batches: list[int] = field(default_factory=list)
    calls: list[tuple[str, list[Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    sockets: set[web.WebSocketResponse] = field(default_factory=set)
    url: str = ""
    ws_url: str = ""
    ipc_path: str = ""

    def answer(self, body: Any) -> Any:
        """Return the reply to a decoded request."""
        if isinstance(body, list):
            self.batches.append(len(body))
            return self.tamper([self._reply(each) for each in body])
        self.batches.append(1)
        return self._reply(body)

    def _reply(self, request: dict[str, Any]) -> dict[str, Any]:
        method, params = request["method"], request["params"]
        self.calls.append((method, params))
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            if method not in self.methods:
                raise Refusal(-32601, f"the method {method} does not exist")
            reply["result"] = self.methods[method](params)
        except Refusal as refusal:
            reply["error"] = refusal.error
        return reply

    async def announce(self) -> None:
        """Send a ``newHeads`` notification to every WebSocket."""
        params = {"subscription": "0x1", "result": {"number": "0x1"}}
        message = {"jsonrpc": "2.0", "method": "eth_subscription", "params": params}
        for socket in self.sockets:
            await socket.send_json(message)

    async def hang_up(self) -> None:
        """Close every WebSocket."""
        for socket in list(self.sockets):
            await socket.close()

    async def _http(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._websocket(request)
        self.headers.append(dict(request.headers))
        body = json.loads(await request.read())
        if self.respond is not None:
            response = await self.respond(request, body)
            if response is not None:
                return response
        return web.json_response(self.answer(body))

    async def _websocket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        self.sockets.add(socket)
        try:
            async for message in socket:
                if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                    reply = self.answer(json.loads(message.data))
                    if reply is not None:
                        await socket.send_str(json.dumps(reply))
        finally:
            self.sockets.discard(socket)
        return socket

    async def _ipc(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while line := await reader.readline():
            writer.write(json.dumps(self.answer(json.loads(line))).encode() + b"\n")
            await writer.drain()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def running(
    node: FakeNode, folder: Path | None = None
) -> AsyncIterator[FakeNode]:
    """Serve a node on a free port, and on a socket in ``folder`` if there is one."""
    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{path:.*}", node._http)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    node.url, node.ws_url = f"http://{host}:{port}", f"ws://{host}:{port}"
    server = None
    if folder is not None:
        node.ipc_path = str(folder / "node.ipc")
        server = await asyncio.start_unix_server(node._ipc, node.ipc_path, limit=2**28)
    try:
        yield node
    finally:
        if server is not None:
            server.close()
        await runner.cleanup()
