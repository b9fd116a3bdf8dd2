from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from indexer.db.connection import Database
from indexer.ranges import BlockRange
from indexer.services.dashboard import Dashboard, chainmap
from indexer.services.dashboard.chainmap import read_map
from indexer.services.dashboard.server import _PAGE
from indexer.services.telemetry import serve
from tests.support.jobs import add, queue, rows

SECRET = "hunter2"


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with queue(database_url) as opened:
        yield opened


@pytest.fixture
async def page(database: Database) -> AsyncIterator[str]:
    app = Dashboard(database).application()
    async with serve(app, port=0, host="127.0.0.1", flag="--port") as port:
        yield f"http://127.0.0.1:{port}"


async def get(url: str, **headers: str) -> tuple[int, str, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers) as reply,
    ):
        return reply.status, await reply.text(), reply.headers


async def test_the_page_loads_nothing_from_elsewhere(page: str) -> None:
    files = [path.name for path in _PAGE.iterdir()]
    assert "main.js" in files
    for name in ("", *files):
        status, text, headers = await get(f"{page}/{name}")
        assert status == 200, name
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        outside = text.replace("http://www.w3.org/", "")
        assert "//" not in outside.replace("// ", "") or "http" not in outside, name
        assert "innerHTML =" not in text.replace("innerHTML ==", "")


async def test_only_those_who_use_a_local_name_are_answered(page: str) -> None:
    for host in ("rebound.example", "rebound.example:8080", "127.0.0.1.example"):
        status, text, _ = await get(f"{page}/api/status", Host=host)
        assert status == 403 and "localhost" in text
    for host in ("localhost", "127.0.0.1:99", "[::1]:99"):
        assert (await get(f"{page}/api/status", Host=host))[0] == 200


async def test_it_only_reads_and_only_files_of_its_own(page: str) -> None:
    assert (await get(f"{page}/server.py"))[0] == 404
    assert (await get(f"{page}/../server.py"))[0] == 404
    assert (await get(f"{page}/%2e%2e/server.py"))[0] == 404
    async with aiohttp.ClientSession() as session:
        for call in (session.post, session.put, session.delete):
            async with call(f"{page}/api/status") as reply:
                assert reply.status == 405


@pytest.mark.parametrize(
    "query",
    [
        "cells=0",
        "cells=100000",
        "cells=x",
        "from=5&to=1",
        "from=-1&to=5",
        "from=²&to=5",
    ],
)
async def test_what_cannot_be_shown_is_said(page: str, query: str) -> None:
    status, text, _ = await get(f"{page}/api/map?{query}")
    assert status == 400 and text


async def test_nothing_that_is_served_holds_a_secret(
    database: Database, page: str
) -> None:
    [job] = await add(database, 1, kind="index_blocks")
    await rows(
        database,
        "update {s}.jobs set status = 'failed', last_error = %s where id = %s",
        f"RpcUnavailable: https://user:{SECRET}@node.example/v3/{SECRET} is away",
        job,
    )
    await rows(
        database,
        "insert into {s}.endpoints (name, last_error) values (%s, %s)",
        f"https://node.example/v3/{SECRET}",
        f"password={SECRET}",
    )
    async with database.connection() as other:
        await other.execute(f"select '{SECRET}', pg_sleep(0)".encode())
    for path in ("api/status", "api/map", "", "health"):
        status, text, _ = await get(f"{page}/{path}")
        assert status == 200
        assert SECRET not in text, path
    assert "node.example" in (await get(f"{page}/api/status"))[1]


async def test_nothing_is_called_missing_where_not_every_job_was_read(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rows(
        database,
        "insert into {s}.plans (from_block, to_block, range_size, jobs_queued)"
        " values (0, 299, 100, 3)",
    )
    await rows(
        database,
        "insert into {s}.jobs (kind, payload) select 'index_blocks',"
        " jsonb_build_object('from', 100 * n, 'to', 100 * n + 99)"
        " from generate_series(0, 1) as n",
    )
    planned = [BlockRange(0, 299)]
    assert (await read_map(database)).states["missing"] == [BlockRange(200, 299)]
    monkeypatch.setattr(chainmap, "_JOBS_LIMIT", 2)
    assert (await read_map(database)).states["queued"] == planned


async def test_a_database_that_is_away_is_said_and_waited_for(
    database: Database, page: str
) -> None:
    await database.close()
    status, text, _ = await get(f"{page}/api/status")
    assert status == 503 and "error" in text
    await database.open()
    assert (await get(f"{page}/api/status"))[0] == 200
