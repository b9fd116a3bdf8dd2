"""A proxy in front of PostgreSQL that can fall silent without closing anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg.conninfo import conninfo_to_dict, make_conninfo


@asynccontextmanager
async def silenceable(url: str) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Put a proxy in front that can keep every connection open and pass nothing on."""
    target = conninfo_to_dict(url)
    silent = asyncio.Event()

    async def open_target() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = str(target["host"]), str(target["port"])
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, int(port))

    async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            if not silent.is_set():
                sink.write(data)
                await sink.drain()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await open_target()
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
