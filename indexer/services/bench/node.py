"""The deterministic node as a process of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from indexer.chain.endpoint import Endpoint
from indexer.services.bench.processes import cpu_seconds, peak_rss_bytes, running

# Above the blocks asked for, so that all of them are final.
_ABOVE = 100


class Asked(NamedTuple):
    """What a node was asked so far, and what that cost it."""

    calls: int
    http_requests: int
    bytes_out: int
    cpu_seconds: float

    def since(self, before: Asked) -> Asked:
        """Return the difference."""
        return Asked(
            self.calls - before.calls,
            self.http_requests - before.http_requests,
            self.bytes_out - before.bytes_out,
            self.cpu_seconds - before.cpu_seconds,
        )


class BenchNode:
    """A running node; ``endpoint`` is the benchmark's own way to it."""

    def __init__(self, pid: int, url: str, endpoint: Endpoint) -> None:
        self.pid = pid
        self.url = url
        self.endpoint = endpoint

    async def asked(self) -> Asked:
        """Return what it was asked since its start."""
        found = json.loads(bytes(await self.endpoint.call("devnode_counters", [])))
        return Asked(
            sum(found["methods"].values()),
            found["requests"],
            found["bytesOut"],
            cpu_seconds(self.pid),
        )

    async def set_latency(self, seconds: float) -> None:
        """Make every request wait before it is answered."""
        await self.endpoint.call("devnode_fault", [])
        if seconds:
            fault = {"kind": "latency", "seconds": seconds}
            await self.endpoint.call("devnode_fault", [fault])

    def peak_rss_bytes(self) -> int:
        """Return the most memory it ever held."""
        return peak_rss_bytes(self.pid)


@asynccontextmanager
async def bench_node(profile: str, *, blocks: int) -> AsyncIterator[BenchNode]:
    """Run a node whose first ``blocks`` heights are final."""
    arguments = ("devnode", "--port", "0", "--profile", profile)
    height = str(blocks + _ABOVE)
    with running(*arguments, "--height", height) as (pid, url):
        endpoint = Endpoint(url)
        try:
            yield BenchNode(pid, url, endpoint)
        finally:
            await endpoint.close()
