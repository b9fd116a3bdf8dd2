from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg

from tests.support.pgbouncer import run_pgbouncer


def backend(conn: psycopg.Connection) -> int:
    row = conn.execute("select pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


def test_clients_of_the_pooler_share_its_server_connections(
    empty_database_url: str,
) -> None:
    with run_pgbouncer(empty_database_url, pool_size=2) as url, ExitStack() as stack:
        clients = [
            stack.enter_context(
                psycopg.connect(url, autocommit=True, prepare_threshold=None)
            )
            for _ in range(6)
        ]
        with ThreadPoolExecutor(6) as pool:
            backends = set(pool.map(backend, clients))
        assert len(backends) <= 2


def test_a_transaction_keeps_its_server_connection(empty_database_url: str) -> None:
    with (
        run_pgbouncer(empty_database_url) as url,
        psycopg.connect(url, prepare_threshold=None) as conn,
    ):
        first = backend(conn)
        conn.execute("create table t (n int)")
        conn.execute("insert into t values (1)")
        assert backend(conn) == first
