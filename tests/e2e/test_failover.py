"""A standby is promoted under workers, and a database is away for three leases."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from indexer.db.account import system_account
from indexer.db.connection import Database
from indexer.db.migrate import migrate
from indexer.errors import DatabaseUnavailable
from indexer.jobs.execution import Execution
from indexer.jobs.worker import Worker, WorkerSettings
from tests.support.jobs import KIND, add, queue, rows, until
from tests.support.parts import debian_package
from tests.support.postgres import PrivateServer, private_server

LEASE = timedelta(seconds=2)
JOBS = 4


@pytest.fixture
def primary() -> Iterator[PrivateServer]:
    program = debian_package("postgresql-15", "/usr/lib/postgresql/15/bin/postgres")
    with private_server(program.parent) as server:
        asyncio.run(migrate(server.url, schema="indexer"))
        yield server


@contextmanager
def standby_of(primary: PrivateServer, port: int) -> Iterator[Path]:
    """Stream to a copy of the primary, in the same socket directory."""
    binaries = Path("/usr/lib/postgresql/15/bin")
    where = conninfo_to_dict(primary.url)
    home = Path(tempfile.mkdtemp(prefix="indexer-tests-standby-"))
    account = {}
    if os.geteuid() == 0:
        account = {"user": system_account().uid}
        os.chown(home, system_account().uid, -1)

    def call(*arguments: str) -> None:
        subprocess.run(
            arguments,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            cwd="/",
            **account,  # type: ignore[call-overload]
        )

    call(
        str(binaries / "pg_basebackup"),
        *("--dbname", f"host={where['host']} port={where['port']} user=postgres"),
        *("--pgdata", str(home), "--write-recovery-conf", "--checkpoint", "fast"),
    )
    control = [str(binaries / "pg_ctl"), "--pgdata", str(home), "--wait"]
    options = f"-p {port} -k {where['host']} -c listen_addresses="
    call(*control, "--options", options, "--log", str(home / "log"), "start")
    try:
        yield home
    finally:
        call(*control, "--mode", "immediate", "stop")
        shutil.rmtree(home)


def promote(home: Path) -> None:
    account = {"user": system_account().uid} if os.geteuid() == 0 else {}
    subprocess.run(
        ["/usr/lib/postgresql/15/bin/pg_ctl", "-D", str(home), "--wait", "promote"],
        check=True,
        cwd="/",
        stdout=subprocess.DEVNULL,
        **account,  # type: ignore[call-overload]
    )


class Working:
    """A worker whose jobs wait inside their handlers for a word."""

    def __init__(self, database: Database) -> None:
        self.go = asyncio.Event()
        self.started = 0
        self.subject = Worker(
            database,
            handlers={KIND: self.handle},
            settings=WorkerSettings(lease=LEASE, poll_interval=timedelta(seconds=1)),
        )

    async def handle(self, execution: Execution) -> None:
        self.started += 1
        async with execution.chunk(progress={"begun": True}):
            pass
        await self.go.wait()
        async with execution.finish():
            pass


@asynccontextmanager
async def working(url: str) -> AsyncIterator[tuple[Database, list[Working]]]:
    """Two workers, each with jobs in its hands."""
    async with queue(url) as database:
        both = [Working(database), Working(database)]
        await add(database, JOBS)
        tasks = [asyncio.create_task(each.subject.run()) for each in both]

        async def all_begun() -> bool:
            begun = await rows(
                database, "select 1 from {s}.jobs where progress is not null"
            )
            return len(begun) == JOBS

        await until(all_begun)
        yield database, both
        for each in both:
            each.subject.request_stop()
        await asyncio.gather(*tasks)


@asynccontextmanager
async def newcomer(database: Database) -> AsyncIterator[None]:
    """A worker that was not there before; it runs nothing, but it reaps."""
    subject = Worker(
        database, handlers={"none": _none}, settings=WorkerSettings(lease=LEASE)
    )
    task = asyncio.create_task(subject.run())
    yield
    subject.request_stop()
    await task


async def _none(execution: Execution) -> None:
    raise AssertionError("there are no such jobs")


async def all_done(database: Database) -> bool:
    try:
        return len(await rows(database, "select 1 from {s}.jobs_history")) == JOBS
    except DatabaseUnavailable:
        return False


async def check(database: Database, both: list[Working]) -> None:
    for each in both:
        each.go.set()
    await until(lambda: all_done(database), "the end of every job")
    assert await rows(
        database,
        "select distinct status, attempts, lost_leases, errors from {s}.jobs_history",
    ) == [("done", 1, 0, 0)]
    assert sum(each.started for each in both) == JOBS
    # And they take new work by themselves.
    await add(database, 1)

    async def is_done_too() -> bool:
        return not await rows(database, "select 1 from {s}.jobs")

    await until(is_done_too, "the end of a new job")


async def test_q6_an_outage_of_three_leases_revokes_no_claim_and_costs_no_attempt(
    primary: PrivateServer,
) -> None:
    async with working(primary.url) as (database, both):
        await asyncio.to_thread(primary.stop, "fast")
        # The outage itself, which has to be longer than three leases.
        await asyncio.sleep(3 * LEASE.total_seconds() + 0.5)
        await asyncio.to_thread(primary.start)
        await check(database, both)


async def test_q12_workers_follow_to_a_promoted_standby_by_themselves(
    primary: PrivateServer,
) -> None:
    where = conninfo_to_dict(primary.url)
    port = int(str(where["port"])) + 1
    with standby_of(primary, port) as home:
        several = (
            f"host={where['host']},{where['host']} port={where['port']},{port} "
            f"user={where['user']} dbname={where['dbname']} "
            "target_session_attrs=read-write"
        )
        async with working(several) as (database, both):

            async def has_all() -> bool:
                with psycopg.connect(
                    f"host={where['host']} port={port} user=postgres"
                    f" dbname={where['dbname']}"
                ) as conn:
                    found = conn.execute(
                        "select 1 from indexer.jobs where progress is not null"
                    ).fetchall()
                return len(found) == JOBS

            await until(has_all, "the standby's catching up")
            await asyncio.to_thread(primary.stop, "immediate")
            await asyncio.sleep(LEASE.total_seconds())
            await asyncio.to_thread(promote, home)
            # It finds every lease over, and a server that has been up for long.
            async with queue(several) as anew, newcomer(anew):
                await check(database, both)


async def test_q12_a_server_that_turns_read_only_is_left_and_come_back_to(
    primary: PrivateServer,
) -> None:
    async with working(primary.url) as (database, both):
        with psycopg.connect(primary.url, autocommit=True) as conn:
            conn.execute("alter system set default_transaction_read_only = on")
            conn.execute("select pg_reload_conf()")

            async def is_read_only() -> bool:
                try:
                    await add(database, kind="idle")
                except DatabaseUnavailable:
                    return True
                return False

            await until(is_read_only)
            await asyncio.sleep(3 * LEASE.total_seconds())
            conn.execute("set default_transaction_read_only = off")
            conn.execute("alter system reset default_transaction_read_only")
            conn.execute("select pg_reload_conf()")
        await until(lambda: _clean(database), "the end of the read-only time")
        await check(database, both)


async def _clean(database: Database) -> bool:
    try:
        await rows(database, "delete from {s}.jobs where kind = 'idle'")
    except DatabaseUnavailable:
        return False
    return True
