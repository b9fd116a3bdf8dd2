"""The follower or its connection dies at every step of a reorganisation in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.abc import RV, PQGen

from indexer.db.connection import Connection
from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from tests.support.following import Following, Reader, following
from tests.support.reader import differences

HEIGHT = 150
START = 130
# Far more than a reorganisation takes; the last ones must find nothing to end.
STEPS = 200


class Killed(BaseException):
    """What a process that was killed does not live to see."""


class Failpoint:
    """Counts what the follower sends to the database, and strikes once.

    A step is anything that waits for the server: a statement, BEGIN, COMMIT, a part
    of a COPY, the pool's look at a connection.
    """

    def __init__(self, admin: psycopg.Connection[Any], kind: str) -> None:
        self.admin = admin
        self.kind = kind
        self.left = -1
        self.task: asyncio.Task[int] | None = None
        self.original = Connection.wait

    def arm(self, task: asyncio.Task[int], step: int) -> None:
        self.task, self.left = task, step

    @property
    def has_struck(self) -> bool:
        return self.left < 0

    async def wait(self, conn: Connection, gen: PQGen[RV], *rest: Any) -> RV:
        strikes = False
        if self.left >= 0 and asyncio.current_task() is self.task:
            strikes = self.left == 0
            self.left -= 1
        if strikes and self.kind == "connection":
            self.admin.execute(
                "select pg_terminate_backend(%s, 10000)", [conn.info.backend_pid]
            )
        result = await self.original(conn, gen, *rest)
        if strikes and self.kind == "process":
            # The server has done it, COMMIT too; nobody hears of it.
            raise Killed
        return result


@pytest.fixture
def node() -> Iterator[Devnode]:
    config = DevnodeConfig(profile="mixed", height=HEIGHT, finality_depth=100)
    with running_devnode(config) as running:
        yield running


@pytest.fixture(params=["connection", "process"])
def failpoint(
    request: pytest.FixtureRequest, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Failpoint]:
    with psycopg.connect(database_url, autocommit=True) as admin:
        point = Failpoint(admin, request.param)

        async def wait(conn: Connection, gen: PQGen[RV], *rest: Any) -> RV:
            return await point.wait(conn, gen, *rest)

        monkeypatch.setattr(Connection, "wait", wait)
        monkeypatch.setattr(
            "indexer.services.follow.follower.delay_seconds", lambda *_, **__: 0.001
        )
        yield point


async def killed_or_there(it: Following, node: Devnode) -> None:
    """Wait until the follower is dead, or has done what there was to do."""
    try:
        await it.until_block(node.url)
    except Killed:
        assert it.task.done()


async def test_c5_killed_at_every_step_a_restart_converges(
    node: Devnode, database_url: str, failpoint: Failpoint
) -> None:
    reorganised = 0
    with Reader(database_url):
        for step in range(STEPS):
            async with following(
                database_url, node.url, start=START, works=False
            ) as it:
                await it.until_block(node.url)
                failpoint.arm(it.task, step)
                node.reorg(2)
                await killed_or_there(it, node)
                if not failpoint.has_struck:
                    # Nor may it strike while the follower gives its role back.
                    failpoint.left = -1
                    break
                reorganised += 1
        else:
            raise AssertionError("the path has more steps than expected")
        async with following(database_url, node.url) as it:
            await it.until_tip(node.url)
            reorgs = await it.reorgs()
    # Each happened once, however often it was begun.
    assert len(reorgs) == reorganised + 1
    assert {each[1] for each in reorgs} == {2}
    assert [each[3] for each in reorgs[:-1]] == [each[2] for each in reorgs[1:]]
    head = node.chain.head
    assert differences(node.url, database_url, range(START, head + 1)) == []
