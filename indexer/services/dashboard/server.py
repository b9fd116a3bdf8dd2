"""Serve the page and its two JSON resources; read-only, and only files of ours."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
from aiohttp import web
from aiohttp.typedefs import Handler

from indexer.db.connection import Database
from indexer.errors import IndexerError
from indexer.log import redact
from indexer.ranges import BlockRange
from indexer.services.dashboard.chainmap import ChainMap, read_map, view
from indexer.services.status import Pace, read_status

# Many browsers, or one that is impatient, cost the database no more than this.
_FRESH_SECONDS = 1.0
_MOST_CELLS = 2000
_HIGHEST = 2**63 - 2

_PAGE = Path(__file__).parent / "page"
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_HEADERS = {
    # Nothing but our own files, so that no text of a job's error can become a script.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_OURS = {"localhost", "127.0.0.1", "::1"}


class Dashboard:
    """Reads the database when a browser asks, and not more often than it changes."""

    def __init__(self, database: Database, *, loopback: bool = True) -> None:
        """``loopback``: answer only those who call this machine by a local name.

        Else a web page elsewhere could have its own name resolve to this machine,
        and read what is meant for its user.
        """
        self._database = database
        self._loopback = loopback
        self._pace = Pace()
        self._status = _Fresh(self._read_status)
        self._map = _Fresh(self._read_map)

    def application(self) -> web.Application:
        """Return the application that serves it."""
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/", self._index)
        app.router.add_get("/health", self._health)
        app.router.add_get("/api/status", self._get_status)
        app.router.add_get("/api/map", self._get_map)
        for path in sorted(_PAGE.iterdir()):
            app.router.add_get(f"/{path.name}", _file(path))
        return app

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        if self._loopback and _hostname(request.host) not in _OURS:
            raise web.HTTPForbidden(text="this page is served to localhost only\n")
        try:
            response = await handler(request)
        except (IndexerError, psycopg.Error) as error:
            problem = redact(str(error).strip())
            response = web.json_response({"error": problem}, status=503)
        response.headers.update(_HEADERS)
        return response

    async def _index(self, _request: web.Request) -> web.Response:
        return _response(_PAGE / "index.html")

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def _get_status(self, _request: web.Request) -> web.Response:
        return _json(await self._status.get())

    async def _get_map(self, request: web.Request) -> web.Response:
        cells = _number(request, "cells", 400)
        first, last = _number(request, "from", None), _number(request, "to", None)
        if cells is None or not 1 <= cells <= _MOST_CELLS:
            raise web.HTTPBadRequest(text=f"cells is 1 to {_MOST_CELLS}\n")
        wanted = None
        if first is not None and last is not None:
            if first > last:
                raise web.HTTPBadRequest(text="from is above to\n")
            wanted = BlockRange(first, last)
        found: ChainMap = await self._map.get()
        return _json(view(found, wanted=wanted, cells=cells))

    async def _read_status(self) -> dict[str, Any]:
        return await read_status(self._database, pace=self._pace)

    async def _read_map(self) -> ChainMap:
        status = await self._status.get()
        return await read_map(self._database, head=status["tip"]["head_block"])


class _Fresh:
    """Remembers an answer for a moment, and asks once for everybody."""

    def __init__(self, ask: Callable[[], Awaitable[Any]]) -> None:
        self._ask = ask
        self._lock = asyncio.Lock()
        self._answer: Any = None
        self._at = float("-inf")

    async def get(self) -> Any:  # noqa: ANN401 - whatever is asked for
        async with self._lock:
            if time.monotonic() - self._at > _FRESH_SECONDS:
                self._answer = await self._ask()
                self._at = time.monotonic()
            return self._answer


def _hostname(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _number(request: web.Request, name: str, default: int | None) -> int | None:
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise web.HTTPBadRequest(text=f"{name} is a whole number\n")
    return min(int(text), _HIGHEST)


def _json(found: dict[str, Any]) -> web.Response:
    return web.json_response(found, dumps=lambda each: json.dumps(each, default=str))


def _file(path: Path) -> Handler:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return _response(path)

    return handler


def _response(path: Path) -> web.Response:
    return web.Response(
        body=path.read_bytes(), content_type=_TYPES[path.suffix], charset="utf-8"
    )
