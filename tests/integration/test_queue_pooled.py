"""The queue's suite once more, through PgBouncer in transaction mode.

Five server connections serve all clients of a database, so that whatever one leaves in
its session is met by others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import ModuleType

import psycopg
import pytest

from indexer.db.connection import Database
from indexer.errors import DatabaseUnavailable
from indexer.store.copy import EncodedRows, copy_rows
from indexer.store.tables import LOGS
from tests.integration import (
    test_queue_backlog,
    test_queue_batches,
    test_queue_claims,
    test_queue_contention,
    test_queue_fences,
    test_queue_heartbeat,
    test_queue_history,
    test_queue_marks,
    test_queue_reaper,
    test_queue_worker,
)
from tests.support.jobs import direct_urls, queue, rows
from tests.support.pgbouncer import run_pgbouncer
from tests.support.postgres import in_database

_ALL = (
    test_queue_backlog,
    test_queue_batches,
    test_queue_claims,
    test_queue_contention,
    test_queue_fences,
    test_queue_heartbeat,
    test_queue_history,
    test_queue_marks,
    test_queue_reaper,
    test_queue_worker,
)
# These change the session they are lent, or that of the next to connect, which a
# pooler's clients cannot.
_OF_SESSIONS = {
    "test_q1_no_claim_exceeds_its_limit_whatever_the_statistics_say",
    "test_q1_claims_are_read_committed_where_the_server_is_not",
    "test_q1_a_default_isolation_that_changes_under_a_session_is_noticed",
    "test_q5_a_connection_that_gives_no_answer_is_made_anew",
    "test_small_claims_are_planned_once_for_each_size_of_the_table",
}


@pytest.fixture(scope="module")
def pooler(server: str) -> Iterator[str]:
    with run_pgbouncer(server, every=True) as url:
        yield url


@pytest.fixture
def database_url(database_url: str, pooler: str) -> str:
    pooled = in_database(pooler, database_url.rsplit("/", 1)[1].split("?")[0])
    direct_urls[pooled] = database_url
    return pooled


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with queue(database_url) as opened:
        await rows(opened, "create table {s}.effects (n integer)")
        yield opened


def _take(module: ModuleType) -> None:
    for name, thing in vars(module).items():
        if name.startswith("test_") and name not in _OF_SESSIONS:
            globals()[name] = thing


for _module in _ALL:
    _take(_module)


@pytest.mark.parametrize("is_pooled", [True, False])
async def test_q12_a_copy_whose_session_is_ended_is_an_outage(
    database: Database, is_pooled: bool
) -> None:
    direct = direct_urls[database.url]
    url = database.url if is_pooled else direct
    with psycopg.connect(direct, autocommit=True) as other:

        class EndingTheSession(list[bytes]):
            def __iter__(self) -> Iterator[bytes]:
                other.execute("select pg_terminate_backend(%s, 5000)", [pid])
                yield b""

        async with Database(url, schema="indexer") as opened:
            with pytest.raises(DatabaseUnavailable):
                async with opened.transaction() as conn:
                    cursor = await conn.execute(b"select pg_backend_pid()")
                    [pid] = await cursor.fetchone() or []
                    rows = EncodedRows(LOGS, 1, EndingTheSession())
                    await copy_rows(conn, rows, fresh=True)
            async with opened.transaction() as conn:
                await conn.execute(b"select 1")
