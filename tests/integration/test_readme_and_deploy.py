from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def sql_blocks() -> list[str]:
    return re.findall(r"```sql\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("block", sql_blocks())
def test_every_sql_example_of_the_readme_runs(block: str, database_url: str) -> None:
    with psycopg.connect(database_url) as conn:
        # Inside a transaction that is rolled back: roles belong to the whole server.
        conn.execute(block.replace("'…'", "'00'").encode())
        conn.rollback()


def test_the_enqueuing_role_of_the_readme_may_enqueue_and_nothing_else(
    database_url: str,
) -> None:
    [grants] = [block for block in sql_blocks() if "indexer_enqueuer" in block]
    with psycopg.connect(database_url) as conn:
        conn.execute(grants.encode())
        conn.execute("set local role indexer_enqueuer")
        conn.execute(
            "insert into indexer.jobs (kind, payload) "
            "values ('index_blocks', '{\"from\": 1, \"to\": 2}')"
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege), conn.transaction():
            conn.execute("delete from indexer.jobs")
        with pytest.raises(psycopg.errors.InsufficientPrivilege), conn.transaction():
            conn.execute("select count(*) from indexer.blocks")
        conn.execute("set local role indexer_reader")
        conn.execute("select count(*) from indexer.blocks")
        conn.rollback()


def test_every_command_stands_in_the_readme() -> None:
    from indexer.cli import _COMMANDS

    for command in _COMMANDS:
        assert f"indexer {command}" in README
