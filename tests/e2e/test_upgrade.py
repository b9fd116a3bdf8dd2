"""A rolling upgrade: workers of two versions on one schema, migrated under them."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

import indexer
from indexer.db.migrate import migrations
from indexer.db.queries import sql_directory
from indexer.devnode.faults.fault import Fault
from indexer.devnode.server import DevnodeConfig, running_devnode
from tests.support.program import Program, run, until, value

_NEXT = max(each.version for each in migrations()) + 1
ADDITIVE, BREAKING, MENDING = (
    f"{_NEXT + step:04d}_{what}"
    for step, what in enumerate(("adds", "breaks", "mends"))
)
ADDS = f"""
-- serves programs from {_NEXT - 1:04d}
alter table {{schema}}.blocks add column seen_by text;
alter table {{schema}}.jobs add column tenant text not null default 'nobody';
create table {{schema}}.tenants (name text primary key);
"""
BREAKS = """
alter table {schema}.transactions rename column input to calldata;
"""
MENDS = """
alter table {schema}.transactions rename column calldata to input;
"""
HEIGHTS = 400


class Version:
    """The program as it is, with further migrations: a later version of it."""

    def __init__(
        self, home: Path, env: Mapping[str, str], migrations: Mapping[str, str]
    ) -> None:
        shutil.copytree(Path(indexer.__file__).parent, home / "indexer")
        shutil.copytree(sql_directory(), home / "sql")
        for name, text in migrations.items():
            (home / "sql" / "migrations" / f"{name}.sql").write_text(text)
        # What lies in the working directory goes before what is installed.
        self.home = home
        self.env = env

    def migrate(self) -> None:
        """Migrate; where a table's lock could not be had in time, once more."""
        until(self._is_migrated, what="the schema is migrated")

    def _is_migrated(self) -> bool:
        result = run("migrate", env=self.env, cwd=self.home)
        assert result.returncode == 0 or "lock timeout" in result.stderr, result.stderr
        return result.returncode == 0


class Backfill(NamedTuple):
    """Work that goes on for as long as it is wanted, from a slow node."""

    env: dict[str, str]
    url: str

    @property
    def planned(self) -> object:
        return value(self.url, "select max(to_block) + 1 from indexer.plans") or 0

    def done(self) -> bool:
        return bool(value(self.url, "select count(*) > 2 from indexer.jobs_history"))

    def more(self) -> None:
        first = int(str(self.planned))
        planned = run("plan", "--from", str(first), "--to", str(first + HEIGHTS),
                      "--range-size", "20", env=self.env)  # fmt: skip
        assert planned.returncode == 0, planned.stderr

    def done_by(self, workers: str) -> object:
        """Count who is there and has done a job, and see that some are left to do."""
        if not value(
            self.url, "select count(*) from indexer.jobs where status = 'pending'"
        ):
            self.more()
        return value(
            self.url,
            "select count(distinct h.locked_by) from indexer.jobs_history as h "
            f"join indexer.workers as w on w.name = h.locked_by where {workers}",
        )


@pytest.fixture
def backfill(database_url: str) -> Iterator[Backfill]:
    slow = Fault(kind="latency", seconds=0.15)
    config = DevnodeConfig(profile="mixed", height=100_000, faults=(slow,))
    with running_devnode(config) as node:
        env = {"INDEXER_DATABASE_URL": database_url, "INDEXER_RPC_URL": node.url}
        yield Backfill(env, database_url)


def working(
    env: Mapping[str, str], *more: str, version: Version | None = None
) -> Program:
    return Program(
        "work", "--concurrency", "2", "--chunk-blocks", "5", *more,
        env=env, cwd=version.home if version else None,
    )  # fmt: skip


def test_a_rolling_upgrade_loses_nothing_and_who_cannot_serve_the_schema_stops(
    backfill: Backfill, tmp_path: Path
) -> None:
    env, database_url = backfill.env, backfill.url
    new = Version(tmp_path / "new", env, {ADDITIVE: ADDS})
    breaking = Version(tmp_path / "breaking", env, {ADDITIVE: ADDS, BREAKING: BREAKS})
    newest = Version(
        tmp_path / "newest",
        env,
        {ADDITIVE: ADDS, BREAKING: BREAKS, MENDING: MENDS},
    )

    backfill.more()
    with ExitStack() as stack:
        old = [stack.enter_context(working(env)) for _ in range(2)]
        until(backfill.done, what="the old workers are at work")
        new.migrate()
        after = [
            stack.enter_context(working(env, version=new)),
            stack.enter_context(working(env, "--processes", "2", version=new)),
        ]
        # Two old workers, a new one, and the two processes of the other.
        until(lambda: backfill.done_by("true") == 5, what="everybody has done a job")
        # An old one that is started again serves the newer schema, too.
        old[0].signal(signal.SIGTERM)
        assert old[0].wait() == 143
        old[0] = stack.enter_context(working(env))
        until(
            lambda: backfill.done_by(f"w.pid = {old[0].process.pid}") == 1,
            what="the old program does a job on the new schema",
        )
        backfill.more()
        breaking.migrate()
        for program in (*old, *after):
            assert program.wait() == 1
            said = [line for line in program.err.splitlines() if BREAKING in line]
            assert len(said) == 1, program.err
            assert said[0].startswith("error: schema indexer is newer than this")
            assert said[0].endswith("upgrade the program")
            assert "Traceback" not in program.err
    held = "select count(*) from indexer.jobs where status = 'running'"
    assert value(database_url, held) == 0

    refused = run("work", "--drain", env=env)
    assert refused.returncode == 1
    assert BREAKING in refused.stderr

    newest.migrate()
    finished = run("work", "--drain", "--concurrency", "30", env=env, cwd=newest.home)
    assert finished.returncode == 0, finished.stderr
    # Whatever met a schema between two versions was put off, at no cost to it.
    spent = "select count(*) from indexer.jobs_all where errors + lost_leases > 0"
    assert value(database_url, spent) == 0
    verified = run("verify", env=env, cwd=newest.home)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    stored = value(database_url, "select count(*) from indexer.blocks")
    assert stored == backfill.planned
