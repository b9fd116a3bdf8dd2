"""The sockets of a node: HTTP and WebSocket on one port, and how to run it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

from aiohttp import web

from indexer.devnode import messages
from indexer.devnode.config import DevnodeConfig
from indexer.devnode.faults.exchange import Exchange
from indexer.devnode.faults.force import FAULT_HEADER
from indexer.devnode.faults.kind import Act
from indexer.devnode.messages import Calls, RpcFailure
from indexer.devnode.node import Node
from indexer.devnode.sending import abort, send
from indexer.devnode.served import ServedChain
from indexer.devnode.websocket import WebSocketSession
from indexer.tasks import end_tasks

__all__ = ["Devnode", "DevnodeConfig", "running_devnode", "serve"]

_MAX_REQUEST_BYTES = 64 << 20
_SHUTDOWN_SECONDS = 0.5


def _unsupported(_params: list[Any]) -> bytes:
    raise RpcFailure(messages.METHOD_NOT_FOUND, "notifications not supported")


_NO_NOTIFICATIONS = {"eth_subscribe": _unsupported, "eth_unsubscribe": _unsupported}


class Devnode(Node):
    """A node on a loopback port: ``async with Devnode(config) as node``.

    It makes the chain of its settings, or serves the ``chain`` it is given, which
    may be that of another node too and is left open.
    """

    def __init__(
        self, config: DevnodeConfig | None = None, *, chain: ServedChain | None = None
    ) -> None:
        config = DevnodeConfig() if config is None else config
        super().__init__(config, chain)
        self._config = config
        self._owns_chain = chain is None
        self._closing = asyncio.Event()
        self._port = config.port
        self._sessions: set[WebSocketSession] = set()
        self._clock: asyncio.Task[None] | None = None
        app = web.Application(client_max_size=_MAX_REQUEST_BYTES)
        app.router.add_get("/health", self._health)
        app.router.add_get("/", self._websocket)
        app.router.add_post("/", self._post)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=_SHUTDOWN_SECONDS,
            # Nobody makes millions of blocks for a client that has left.
            handler_cancellation=True,
        )

    @property
    def url(self) -> str:
        """Return where the node takes HTTP requests."""
        return f"http://{self._config.host}:{self._port}"

    @property
    def ws_url(self) -> str:
        """Return where the node takes WebSocket connections."""
        return f"ws://{self._config.host}:{self._port}"

    async def __aenter__(self) -> Devnode:
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop()

    async def _start(self) -> None:
        await self.generate(self._config.prepare - 1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._config.host, self._config.port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        if self._config.block_time:
            self._clock = asyncio.create_task(self._tick(self._config.block_time))

    async def _stop(self) -> None:
        if self._clock is not None:
            await end_tasks(self._clock)
        self._closing.set()
        for session in tuple(self._sessions):
            await session.close()
        await self._runner.cleanup()
        if self._owns_chain:
            self.chain.close()

    async def _tick(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            # From a fixed start, so that what a block takes does not add up.
            due += seconds
            await asyncio.sleep(max(0.0, due - loop.time()))
            with suppress(ValueError):
                # A recorded chain has an end.
                await self.advance()

    async def _health(self, _request: web.Request) -> web.Response:
        state = {"status": "ok", "head": self.chain.head, "made": self.chain.generated}
        return web.json_response(state)

    async def _websocket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(max_msg_size=_MAX_REQUEST_BYTES, compress=False)
        if not socket.can_prepare(request):
            return web.Response(status=405, text="POST JSON-RPC, or use WebSocket\n")
        session = WebSocketSession(self, socket, request)
        self._sessions.add(session)
        try:
            await session.run()
        finally:
            self._sessions.discard(session)
        return socket

    async def _post(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.counters.requests += 1
        self.counters.bytes_in += len(body)
        try:
            calls = messages.parse(body)
            self.counters.asked(calls)
            exchange = None
            if self.faults.active or FAULT_HEADER in request.headers:
                exchange = self.faults.meet(calls, request.headers.get(FAULT_HEADER))
        except RpcFailure as failure:
            return _json(messages.error(b"null", failure.code, failure.message))
        except ValueError as error:
            return web.Response(status=400, text=f"{FAULT_HEADER}: {error}\n")
        if exchange is not None:
            return await self._faulty(request, calls, exchange)
        reply = await self.reply(calls, _NO_NOTIFICATIONS)
        self.counters.bytes_out += len(reply)
        return _json(reply)

    async def _faulty(
        self, request: web.Request, calls: Calls, exchange: Exchange
    ) -> web.StreamResponse:
        """Answer as the faults have it."""
        for act in exchange.acts(messages.ids(calls)):
            await asyncio.sleep(act.wait)
            if act.end:
                return await self._end(request, act)
            if act.status:
                return web.Response(
                    status=act.status,
                    body=act.body,
                    headers=act.headers,
                    content_type=act.content_type,
                )
        if not exchange.touches_answers:
            return _json(await self.reply(calls, _NO_NOTIFICATIONS))
        response = await self.reply_under(exchange, calls, _NO_NOTIFICATIONS)
        self.counters.bytes_out += len(response.body)
        return await send(request, response)

    async def _end(self, request: web.Request, act: Act) -> web.Response:
        if act.end == "silence":
            await self._closing.wait()
        abort(request.transport, reset=act.end == "reset")
        return web.Response()


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


async def serve(
    config: DevnodeConfig, on_ready: Callable[[str], None] | None = None
) -> None:
    """Run a node until cancelled; ``on_ready`` is given its URL once it answers."""
    async with Devnode(config) as node:
        if on_ready is not None:
            on_ready(node.url)
        await asyncio.Event().wait()


@contextmanager
def running_devnode(
    config: DevnodeConfig | None = None, *, chain: ServedChain | None = None
) -> Iterator[Devnode]:
    """Run a node in a thread of its own, with its own event loop."""
    ready = threading.Event()
    started: list[Devnode] = []
    failed: list[BaseException] = []
    stop: list[Callable[[], object]] = []

    async def run() -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with Devnode(config, chain=chain) as node:
            started.append(node)
            stop.append(lambda: loop.call_soon_threadsafe(done.set))
            ready.set()
            await done.wait()

    def main() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=main, name="devnode", daemon=True)
    thread.start()
    ready.wait()
    try:
        if started:
            yield started[0]
    finally:
        for end in stop:
            end()
        thread.join()
    if failed:
        raise failed[0]
