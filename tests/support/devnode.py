"""A plain JSON-RPC client that hides nothing of what the node sends."""

from __future__ import annotations

import json
from typing import Any

import aiohttp


def call(call_id: Any, method: str, *params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call_id, "method": method, "params": [*params]}


class Client:
    """Calls over HTTP; ``headers`` go with each of them."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session
        self.headers: dict[str, str] = {}

    async def post(self, body: Any) -> tuple[int, bytes, Any]:
        """Return status, body and headers of whatever comes back."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self._session.post(
            self._url, data=data, headers=self.headers
        ) as reply:
            return reply.status, await reply.read(), reply.headers

    async def send(self, body: Any) -> Any:
        _, data, _ = await self.post(body)
        return json.loads(data) if data else None

    async def reply(self, method: str, *params: Any) -> Any:
        return await self.send(call(1, method, *params))

    async def result(self, method: str, *params: Any) -> Any:
        reply = await self.reply(method, *params)
        assert "error" not in reply, reply
        return reply["result"]

    async def error(self, method: str, *params: Any) -> tuple[int, str]:
        error = (await self.reply(method, *params))["error"]
        return error["code"], error["message"]

    async def code(self, method: str, *params: Any) -> int:
        return (await self.error(method, *params))[0]

    async def block(self, height: int, full: bool = True) -> Any:
        return await self.result("eth_getBlockByNumber", hex(height), full)

    async def receipts(self, height: int) -> Any:
        return await self.result("eth_getBlockReceipts", hex(height))

    async def faults(self) -> dict[str, int]:
        """Return how often each kind of fault struck."""
        counters = await self.result("devnode_counters")
        found: dict[str, int] = counters["faults"]
        return found
