from __future__ import annotations

import psycopg
import pytest

from tests.support.postgres import PrivateServer


def value(url: str, query: str) -> object:
    with psycopg.connect(url) as conn:
        row = conn.execute(query).fetchone()
    assert row is not None
    return row[0]


def test_every_test_gets_a_migrated_database(database_url: str) -> None:
    assert value(database_url, "select count(*) from indexer.jobs") == 0


def test_an_empty_database_has_no_schema(empty_database_url: str) -> None:
    assert value(empty_database_url, "select to_regnamespace('indexer')") is None


def test_commits_wait_for_the_wal(database_url: str) -> None:
    assert value(database_url, "show synchronous_commit") == "on"


def test_plans_can_be_read_on_version_15(
    each_database_url: str, request: pytest.FixtureRequest
) -> None:
    number = int(str(value(each_database_url, "show server_version_num")))
    expected = 15 if "pg15" in request.node.name else 18
    assert number // 10000 == expected


def test_a_private_server_can_be_killed_and_started(
    private_server: PrivateServer,
) -> None:
    with psycopg.connect(private_server.url) as conn:
        conn.execute("create table t as select 7 as n")
    before = private_server.pid
    private_server.kill()
    assert private_server.pid is None
    private_server.start()
    assert private_server.pid not in (None, before)
    assert value(private_server.url, "select n from t") == 7
