"""Proxies in front of PostgreSQL that can fall silent without closing anything."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar

from psycopg.conninfo import conninfo_to_dict, make_conninfo

Result = TypeVar("Result")


async def open_postgres(
    target: Mapping[str, Any],
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a plain connection to the server of a connection string's parameters."""
    host, port = str(target["host"]), str(target["port"])
    if host.startswith("/"):
        return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
    return await asyncio.open_connection(host, int(port))


@asynccontextmanager
async def silenceable(url: str) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Put a proxy in front that can keep every connection open and pass nothing on."""
    target = conninfo_to_dict(url)
    silent = asyncio.Event()

    async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            if not silent.is_set():
                sink.write(data)
                await sink.drain()

    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(carry(reader, writer))
        serving.add(task)
        await asyncio.wait({task})

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await open_postgres(target)
        try:
            await asyncio.gather(
                pass_on(reader, server_writer), pass_on(server_reader, writer)
            )
        finally:
            server_writer.close()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    proxied = make_conninfo("", **{**target, "host": "127.0.0.1", "port": port})
    try:
        yield proxied, silent
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        # Transports close a turn later.
        await asyncio.sleep(0)


class Path:
    """A proxy in a thread of its own, whose path to the server a test may disturb.

    Silent, it keeps every connection open and passes nothing on; what is sent meanwhile
    is either kept for later, as TCP does where a network parts, or swallowed.
    """

    def __init__(self, target: str) -> None:
        self._target = conninfo_to_dict(target)
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._swallows = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self._open.set()
        self._server = self._ask(asyncio.start_server(self._serve, "127.0.0.1", 0))
        port = self._server.sockets[0].getsockname()[1]
        self.url = make_conninfo(
            "", **{**self._target, "host": "127.0.0.1", "port": port}
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._ask(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def silence(self, *, swallow: bool) -> None:
        """Pass nothing on from now on."""
        self._swallows = swallow
        self._loop.call_soon_threadsafe(self._open.clear)

    def heal(self) -> None:
        """Pass everything on again, what was kept first."""
        self._loop.call_soon_threadsafe(self._open.set)

    def cut(self) -> None:
        """Reset every connection."""
        self._loop.call_soon_threadsafe(self._abort)

    def _ask(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _close(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        ours = {writer}
        self._writers.add(writer)
        try:
            server_reader, server_writer = await open_postgres(self._target)
            ours.add(server_writer)
            self._writers.add(server_writer)
            await asyncio.wait(
                {
                    asyncio.ensure_future(self._pass_on(reader, server_writer)),
                    asyncio.ensure_future(self._pass_on(server_reader, writer)),
                },
                return_when=asyncio.FIRST_COMPLETED,
            )
        except OSError:
            pass
        finally:
            self._writers -= ours
            for each in ours:
                each.transport.abort()

    async def _pass_on(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        try:
            while data := await source.read(65536):
                if not self._open.is_set():
                    swallowed = self._swallows
                    await self._open.wait()
                    if swallowed:
                        continue
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
