"""Whose requests they were."""

from __future__ import annotations

import asyncio

from indexer.chain.endpoint import Endpoint
from indexer.chain.envelope import Call
from indexer.chain.observer import begin_tally
from indexer.devnode.server import Devnode, DevnodeConfig


async def test_requests_are_counted_for_the_work_they_were_sent_for() -> None:
    async with Devnode(DevnodeConfig(height=10)) as node:
        endpoint = Endpoint(node.url)

        async def job(calls: int) -> int:
            tally = begin_tally()
            each = Call("eth_blockNumber", ())
            # Ahead of itself, as a job loads its chunks.
            ahead = asyncio.create_task(endpoint.batch([each] * calls))
            await endpoint.call("eth_chainId", ())
            await ahead
            return tally.requests

        counted = await asyncio.gather(*map(job, (1, 5, 40)))
        await endpoint.close()
    assert counted == [2, 6, 41]
    assert node.counters.methods.total() == sum(counted)
