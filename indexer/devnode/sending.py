"""How a reply leaves the node: whole, in pieces, or not to its end."""

from __future__ import annotations

import asyncio
import socket
import struct

from aiohttp import web

from indexer.devnode.faults.kind import Response

# Closing with the linger option on and no time to linger sends RST, not FIN.
_NO_LINGER = struct.pack("ii", 1, 0)


def abort(transport: asyncio.Transport | None, *, reset: bool = False) -> None:
    """End a connection at once, on request with RST."""
    if transport is None:
        return
    if reset:
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


async def send(request: web.Request, response: Response) -> web.StreamResponse:
    """Send a reply over HTTP as it is to go out."""
    body, stop, pieces, seconds = response
    if stop < 0 and pieces == 1:
        return web.Response(body=body, content_type="application/json")
    stream = web.StreamResponse()
    stream.content_type = "application/json"
    stream.content_length = len(body)
    await stream.prepare(request)
    if stop >= 0:
        await stream.write(body[:stop])
        abort(request.transport)
        return stream
    size = max(1, -(-len(body) // pieces))
    for at in range(0, len(body), size):
        if at:
            await asyncio.sleep(seconds)
        await stream.write(body[at : at + size])
    return stream
