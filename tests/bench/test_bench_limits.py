"""How much of what a node allows is used of it."""

from __future__ import annotations

import asyncio
import sys
from time import monotonic

import pytest

from indexer.devnode.faults import parse_fault
from indexer.devnode.server import DevnodeConfig, running_devnode
from tests.support.backfilling import worker_of

_RATE = 20
_LEARNING_SECONDS = 6
_SECONDS = 30


@pytest.mark.bench
async def test_of_twenty_requests_a_second_nine_tenths_are_used(
    database_url: str,
) -> None:
    config = DevnodeConfig(profile="mixed", chain_id=11_155_111, height=3000)
    with running_devnode(config) as node:
        async with worker_of(database_url, [node.url], range(0, 2900)) as lent:
            node.faults.add(parse_fault(f"rate_limit:rate={_RATE}"))
            running = asyncio.create_task(lent[0].run())
            await asyncio.sleep(_LEARNING_SECONDS)
            node.counters.clear()
            node.faults.tally.clear()
            began = monotonic()
            await asyncio.sleep(_SECONDS)
            took = monotonic() - began
            asked = sum(node.counters.methods.values())
            refused = node.faults.tally["rate_limit"]
            for _ in range(2):
                lent[0].request_stop()
            await running
    # Refused requests were batches of five at most.
    used = (asked - 5 * refused) / took
    sys.stdout.write(
        f"\nof {_RATE} requests/s {used:.1f} were used, {refused} refusals in "
        f"{took:.0f} s\n"
    )
