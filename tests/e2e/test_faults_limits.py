"""Nodes that throttle, break down, or give more than most can take."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest

from indexer.db.connection import Database
from indexer.devnode.faults import parse_fault
from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from indexer.jobs.backlog import count_jobs
from indexer.jobs.roles import claim_role
from indexer.services.endpoints import remembered
from indexer.services.follow.role import ROLE
from tests.support.backfilling import outcome, worker_of
from tests.support.jobs import rows, until
from tests.support.memory import peak_until_end
from tests.support.program import Program, run
from tests.support.reader import differences

CONFIG = DevnodeConfig(profile="sparse", chain_id=11_155_111, height=3000)
HEIGHTS = range(0, 100)


@pytest.fixture
def truth() -> Iterator[Devnode]:
    with running_devnode(CONFIG) as node:
        yield node


async def test_q7_an_outage_of_all_nodes_costs_no_attempt_and_ends_by_itself(
    truth: Devnode, database_url: str
) -> None:
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(running_devnode(CONFIG, chain=truth.chain))
            for _ in range(3)
        ]
        urls = [node.url for node in nodes]
        async with worker_of(database_url, urls, HEIGHTS, range_size=20) as lent:
            worker, database, _ = lent
            for node in nodes:
                node.faults.add(parse_fault("drop"))
            running = asyncio.create_task(worker.run(drain=True))

            async def all_snoozed() -> bool:
                found = await rows(
                    database,
                    "select count(*) from {s}.jobs where snoozes > 1 "
                    "and status = 'pending'",
                )
                return bool(found[0][0] >= 3)

            await until(all_snoozed, "every job waiting for the nodes")
            for node in nodes:
                node.faults.clear()
            # Nobody hurries them: they come back when their snooze is over.
            await running
            found = await outcome(database)
    assert found.failed == []
    assert (found.most_attempts, found.most_errors) == (1, 0)
    assert differences(truth.url, database_url, HEIGHTS) == []


async def test_a_rate_is_learned_for_few_refusals_and_remembered(
    truth: Devnode, database_url: str
) -> None:
    async with worker_of(database_url, [truth.url], range(0, 2900)) as lent:
        worker, database, endpoints = lent
        truth.faults.add(parse_fault("rate_limit:rate=20"))
        running = asyncio.create_task(worker.run())
        async with remembered(database, endpoints, role="work"):

            async def asked(count: int) -> None:
                for _ in range(1200):
                    if sum(truth.counters.methods.values()) >= count:
                        return
                    await asyncio.sleep(0.05)
                raise AssertionError("it has stopped asking")

            # The bucket is empty and the limit known, from here on it counts.
            await asked(100)
            truth.counters.clear()
            truth.faults.tally.clear()
            await asked(100)
            assert truth.faults.tally["rate_limit"] <= 5
        worker.request_stop()
        worker.request_stop()
        await running
        [(limits,)] = await rows(database, "select limits from {s}.endpoints")
    # How near it comes takes longer, and a quiet machine, to tell.
    assert 5 < limits["requests_per_second"] < 40


async def test_a_given_rate_is_never_exceeded(
    truth: Devnode, database_url: str
) -> None:
    async with worker_of(database_url, [truth.url], HEIGHTS, rps=25) as lent:
        worker, database, _ = lent
        truth.faults.add(parse_fault("rate_limit:rate=26,count=8"))
        await worker.run(drain=True)
        assert (await outcome(database)).failed == []
    assert truth.faults.tally["rate_limit"] == 0
    assert differences_without_faults(truth, database_url) == []


def differences_without_faults(node: Devnode, database_url: str) -> list[str]:
    node.faults.clear()
    return differences(node.url, database_url, HEIGHTS)


def test_p1_a_block_of_fifty_megabytes_gets_through_within_the_memory_it_may_take(
    database_url: str,
) -> None:
    huge = 50_000_000
    config = DevnodeConfig(
        profile="sparse",
        chain_id=11_155_111,
        height=200,
        huge_height=30,
        huge_bytes=huge,
    )
    where = ("--database-url", database_url)
    with running_devnode(config) as node:
        url = ("--rpc-url", node.url)
        planned = run("plan", "--from", "20", "--to", "40", *url, *where)
        assert planned.returncode == 0, planned.stderr
        with Program("work", "--drain", *url, *where) as program:
            peak = peak_until_end(program, 120)
            assert program.wait() == 0, program.err[-4000:]
        assert differences(node.url, database_url, range(20, 40)) == []
        assert peak <= 250 * 2**20 + 4 * huge


async def test_a_part_of_a_limited_rate_is_left_to_a_follower(
    truth: Devnode, database_url: str
) -> None:
    async with worker_of(database_url, [truth.url], HEIGHTS, rps=20) as lent:
        _, database, endpoints = lent
        [endpoint] = endpoints.all
        async with remembered(database, endpoints, role="work"):
            assert endpoint.pace.rate == 20
        async with database.connection() as conn:
            lease = timedelta(seconds=60)
            await claim_role(conn, name=ROLE, holder="somebody", lease=lease)

        async def shared() -> bool:
            return endpoint.pace.rate == 15

        async with remembered(database, endpoints, role="work"):
            await until(shared, "the share of a follower")


async def test_what_was_learned_of_a_node_serves_the_next_process(
    truth: Devnode, database_url: str
) -> None:
    truth.faults.add(parse_fault("batch_limit:count=7"))
    refused = []
    for heights in (range(0, 900), range(900, 1000)):
        async with worker_of(database_url, [truth.url], heights) as lent:
            worker, database, endpoints = lent
            async with remembered(database, endpoints, role="work"):
                await worker.run(drain=True)
        refused.append(truth.faults.tally["batch_limit"])
        truth.faults.tally.clear()
    assert refused[0] > 0
    assert refused[1] == 0
    async with Database(database_url, schema="indexer", size=2) as database:
        [(name, state, limits)] = await rows(
            database, "select name, state, limits from {s}.endpoints"
        )
        async with database.connection() as conn:
            assert await count_jobs(conn) == {}
    assert name.startswith("127.0.0.1 #")
    assert state == "answers"
    assert limits["batch_ceiling"] == 7
