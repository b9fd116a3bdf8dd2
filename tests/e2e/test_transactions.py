"""What a worker holds in the database while it waits for the node."""

from __future__ import annotations

from indexer.db.connection import Database
from indexer.devnode.faults import parse_fault
from indexer.devnode.server import DevnodeConfig, running_devnode
from tests.support.program import Program, run, until, value, watching

OPEN = """
select pid, state, query
from pg_stat_activity
where
    application_name like 'indexer work%'
    and xact_start is not null
    and state <> 'active'
"""


def test_q4_no_transaction_is_open_while_a_job_waits_for_the_node(
    database_url: str,
) -> None:
    config = DevnodeConfig(profile="mixed", height=300, finality_depth=0)
    with running_devnode(config) as node:
        where = ["--database-url", database_url, "--rpc-url", node.url]
        planned = run("plan", "--from", "0", "--to", "300", *where)
        assert planned.returncode == 0, planned.stderr
        with Program("work", "--chunk-blocks", "1", *where):
            until(
                lambda: value(
                    database_url, "select progress is not null from indexer.jobs"
                ),
                what="the worker is in the middle of its range",
            )
            node.faults.add(parse_fault("silence"))
            until(
                lambda: value(
                    database_url,
                    "select count(*) filter (where xact_start is not null) = 0 "
                    "and count(*) > 0 from pg_stat_activity "
                    "where application_name like 'indexer work%'",
                ),
                what="its last chunk is committed, and it waits for the node",
            )
            seen = []
            with watching(database_url) as conn:
                for _ in range(300):
                    seen += conn.execute(OPEN.encode()).fetchall()
            assert seen == []
            assert value(database_url, "select status from indexer.jobs") == "running"


async def test_q4_timeouts_hold_for_a_transaction_and_not_for_the_session(
    database_url: str,
) -> None:
    names = (
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
    )

    async with Database(database_url, schema="indexer", size=1) as database:
        async with database.connection() as conn:
            before = [
                await (await conn.execute(f"show {name}".encode())).fetchone()
                for name in names
            ]
        async with database.transaction() as conn:
            within = [
                await (await conn.execute(f"show {name}".encode())).fetchone()
                for name in names
            ]
        async with database.connection() as conn:
            after = [
                await (await conn.execute(f"show {name}".encode())).fetchone()
                for name in names
            ]
    assert ("0",) not in within
    assert after == before
