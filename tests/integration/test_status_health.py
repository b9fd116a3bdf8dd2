from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from indexer.cli.status import print_status
from indexer.db.connection import Database
from indexer.db.migrate import migrate
from indexer.services.exporter import Exporter
from indexer.services.status import health, read_status
from tests.support import postgres
from tests.support.jobs import add, queue, rows, until
from tests.support.standby import Standby


@pytest.fixture(autouse=True)
def every_transaction_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are not waited for here; that they are is shown end to end."""
    monkeypatch.setattr(health, "LONG_TRANSACTION", timedelta(0))
    monkeypatch.setattr(health, "OLD_TRANSACTIONS", 0)


@pytest.fixture(scope="module")
def replicating() -> Iterator[str]:
    """A server with prepared transactions and room for slots."""
    with postgres.private_server(max_prepared_transactions=4) as server:
        asyncio.run(migrate(server.url, schema="indexer"))
        yield server.url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with queue(database_url) as opened:
        yield opened


async def read(database: Database) -> dict[str, Any]:
    found: dict[str, Any] = (await read_status(database))["database"]
    return found


@contextmanager
def forgotten_transaction(url: str, query: str) -> Iterator[int]:
    """A session that began a transaction, asked something, and went to lunch."""
    with psycopg.connect(url, application_name="lunch") as conn:
        conn.execute("set transaction isolation level repeatable read")
        conn.execute(query.encode())
        yield conn.info.backend_pid


async def test_a_session_idle_in_transaction_is_named_with_what_to_do(
    database: Database, database_url: str
) -> None:
    query = "select 'hunter2', count(*) from indexer.blocks"
    with forgotten_transaction(database_url, query) as pid:
        found = await read(database)
        [pin] = [each for each in found["vacuum_pins"] if each["name"] == str(pid)]
        assert pin["holder"] == "session"
        assert pin["application"] == "lunch"
        assert pin["state"] == "idle in transaction"
        assert pin["query"] == "select '…', count(*) from indexer.blocks"
        assert f"pg_terminate_backend({pid})" in pin["remedy"]
        assert pid in [each["pid"] for each in found["long_transactions"]]
        assert found["connections"]["idle_in_transaction"] >= 1

    async def gone() -> bool:
        after = await read(database)
        return str(pid) not in [each["name"] for each in after["vacuum_pins"]]

    await until(gone, "the end of the pin")


async def test_everybody_who_pins_vacuum_is_a_series_of_its_own(
    database: Database, database_url: str
) -> None:
    with (
        forgotten_transaction(database_url, "select 1") as one,
        forgotten_transaction(database_url, "select 2") as other,
    ):
        seen = (await Exporter(database).exposition()).decode()
    for pid in (one, other):
        assert f'holder="session",name="{pid}"' in seen


async def test_what_needs_pg_read_all_stats_is_said_to_be_hidden(
    database: Database, database_url: str
) -> None:
    role = f"plain_{os.getpid()}"
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login").format(sql.Identifier(role)))
        for grant in (
            "grant usage on schema indexer to {}",
            "grant select on all tables in schema indexer to {}",
        ):
            admin.execute(sql.SQL(grant).format(sql.Identifier(role)))
        plain = psycopg.conninfo.make_conninfo(database_url, user=role)
        try:
            with forgotten_transaction(database_url, "select 1") as pid:
                async with Database(plain, schema="indexer") as seen_by_all:
                    found = await read(seen_by_all)
            assert [role in each for each in found["unseen"]] == [True]
            # Too young to be named by transactions, and its time is hidden.
            assert pid not in [each["pid"] for each in found["long_transactions"]]
            admin.execute(
                sql.SQL("grant pg_read_all_stats to {}").format(sql.Identifier(role))
            )
            with forgotten_transaction(database_url, "select 1") as pid:
                async with Database(plain, schema="indexer") as seen_by_all:
                    found = await read(seen_by_all)
            assert found["unseen"] == []
            assert str(pid) in [each["name"] for each in found["vacuum_pins"]]
        finally:
            admin.execute(sql.SQL("drop owned by {}").format(sql.Identifier(role)))
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


async def test_a_prepared_transaction_is_named_by_its_id(replicating: str) -> None:
    with psycopg.connect(replicating, autocommit=True) as conn:
        conn.execute("begin")
        conn.execute("create table left_over ()")
        conn.execute("prepare transaction 'it''s mine'")
        async with Database(replicating, schema="indexer") as database:
            [pin] = (await read(database))["vacuum_pins"]
            assert (pin["holder"], pin["name"]) == ("prepared transaction", "it's mine")
            assert "rollback prepared 'it''s mine'" in pin["remedy"]
            conn.execute("rollback prepared 'it''s mine'")
            assert (await read(database))["vacuum_pins"] == []


async def test_a_standby_its_lag_its_feedback_and_the_slot_it_leaves(
    replicating: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Database(replicating, schema="indexer") as database:
        [[xmin]] = await rows(database, "select pg_current_xact_id()::text::bigint")
        with Standby(replicating, name="reporting") as standby:
            standby.holds(xmin)
            standby.replayed(1)

            async def seen() -> bool:
                found = await read(database)
                return bool(found["vacuum_pins"]) and any(
                    each["lag_bytes"] is not None for each in found["replicas"]
                )

            await until(seen, "the standby's feedback")
            found = await read(database)
            [replica] = found["replicas"]
            assert replica["name"] == "reporting"
            behind = replica["lag_bytes"]
            assert behind > 1_000_000
            await rows(database, "select pg_logical_emit_message(true, 'x', 'y')")
            assert (await read(database))["replicas"][0]["lag_bytes"] > behind
            [pin] = found["vacuum_pins"]
            assert pin["holder"] == "standby"
            assert "hot_standby_feedback" in pin["remedy"]
            print_status(await read_status(database))
            said = " ".join(capsys.readouterr().out.split())
            assert "replica" in said and "reporting, streaming:" in said
            assert "vacuum pinned" in said and "standby" in said

        await rows(database, "select pg_create_physical_replication_slot('away', true)")
        with Standby(replicating, name="reporting", slot="away") as standby:
            standby.holds(xmin)

            async def held() -> bool:
                return bool(
                    await rows(
                        database,
                        "select 1 from pg_replication_slots where xmin is not null",
                    )
                )

            await until(held, "the slot's xmin")

        async def alone() -> bool:
            [slot] = (await read(database))["slots"]
            return not slot["active"]

        await until(alone, "the slot to be left")
        found = await read(database)
        [pin] = found["vacuum_pins"]
        assert (pin["holder"], pin["name"]) == ("replication slot", "away")
        assert pin["state"] == "nobody reads it"
        assert "pg_drop_replication_slot('away')" in pin["remedy"]
        assert found["slots"][0]["retained_bytes"] >= 0
        await rows(database, "select pg_drop_replication_slot('away')")
        assert (await read(database))["vacuum_pins"] == []


async def test_dead_rows_autovacuum_connections_and_wal_move(
    database: Database, database_url: str
) -> None:
    before = await read(database)
    await add(database, 500)
    await rows(database, "update {s}.jobs set run_at = run_at + interval '1 second'")

    async def dead() -> bool:
        # The server counts when a session has been idle for a moment.
        await rows(database, "select pg_stat_force_next_flush()")
        return bool((await read(database))["queue_table"]["dead_rows"] >= 500)

    await until(dead, "the dead rows to be counted")
    found = await read(database)
    assert found["wal_bytes"] > before["wal_bytes"]
    assert found["wal_records"] >= before["wal_records"]
    assert found["queue_table"]["size_bytes"] > before["queue_table"]["size_bytes"]
    assert found["queue_table"]["autovacuum_threshold"] == 1000
    await rows(database, "vacuum {s}.jobs")

    async def vacuumed() -> bool:
        table = (await read(database))["queue_table"]
        return bool(table["vacuums"] == 1 and table["dead_rows"] < 500)

    await until(vacuumed, "the vacuum to be counted")
    used = (await read(database))["connections"]["used"]
    with psycopg.connect(database_url):
        found = await read(database)
        assert found["connections"]["used"] >= used + 1
        assert found["connections"]["allowed"] == 197
    assert (await read(database))["notification_queue_usage"] == 0.0


async def test_a_full_notification_queue_shows(database_url: str) -> None:
    async with queue(database_url) as database:
        with psycopg.connect(database_url) as deaf:
            # Whoever listens and sits in a transaction keeps notifications waiting.
            deaf.execute("listen jobs_ready")
            deaf.commit()
            deaf.execute("select 1")
            await rows(
                database,
                "select pg_notify('jobs_ready', repeat('x', 7000) || n)"
                " from generate_series(1, 300) as n",
            )
            assert (await read(database))["notification_queue_usage"] > 0.0
            deaf.rollback()


def test_every_query_shown_is_short_and_without_literals() -> None:
    shown = health._shown("alter role x\n  password 'o''pen' valid until '2030'")
    assert shown == "alter role x password '…' valid until '…'"
    for secret in (
        "$$hunter2 $ 'x'$$", "$it$hunter2 $$ $$$it$", "E'it\\'s hunter2'",
        "e'\\\\'", "E'hunter2\\", "'hunter2\\'", "$$hunter2", "$a$hunter2 $$",
    ):  # fmt: skip
        assert health._shown(f"select x, {secret}") == "select x, '…'"
    kept = "select f($1,$2), name'…' from a where b = $3 and \"E\" = 5"
    assert health._shown(kept) == kept
    unfinished = health._shown("select 'secret that goes on and on")
    assert unfinished == "select '…'"
    long = health._shown("select " + "a, " * 200)
    assert long is not None and len(long) == 160
