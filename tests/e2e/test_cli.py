"""The commands as their users type them."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import click
import pytest

from indexer.cli import _COMMANDS, cli, main
from indexer.devnode.server import DevnodeConfig, running_devnode
from tests.support.program import (
    Program,
    clean_environment,
    run,
    until,
    value,
    watching,
)


class Inside(Protocol):
    """Run the program within this process; return code, stdout and stderr."""

    def __call__(self, *arguments: str, **env: str) -> tuple[int, str, str]: ...


@pytest.fixture
def inside(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Inside]:
    before = signal.getsignal(signal.SIGTERM), logging.getLogger().handlers[:]

    def call(*arguments: str, **env: str) -> tuple[int, str, str]:
        for name, setting in clean_environment(env).items():
            monkeypatch.setenv(name, setting)
        monkeypatch.setattr("sys.argv", ["indexer", *arguments])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    yield call
    signal.signal(signal.SIGTERM, before[0])
    logging.getLogger().handlers[:] = before[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "--from", "5", "--to", "5"],
        ["plan", "--from", "7", "--to", "5"],
        ["plan", "--from", "-1", "--to", "5"],
        ["plan", "--from", "0", "--to", "-5"],
        ["plan", "--from", "zero", "--to", "5"],
        ["plan", "--from", "0", "--to", "many"],
        ["plan", "--from", "0", "--to", "1e3"],
        ["plan", "--from", "0", "--to", str(2**64)],
        ["plan", "--from", "0", "--to", "5", "--range-size", "0"],
        ["plan", "--from", "0", "--to", "5", "--range-size", "-1"],
        ["plan", "--from", "0", "--to", "finalized"],
        ["plan", "--from", "0"],
        ["work"],
        ["work", "--rpc-url", "ftp://host"],
        ["work", "--rpc-url", "http://host", "--concurrency", "0"],
        ["work", "--rpc-url", "http://host", "--lease", "soon"],
        ["work", "--rpc-url", "http://host", "--heartbeat", "60s"],
        ["follow", "--rpc-url", "http://host", "--from", "tip"],
        ["follow", "--rpc-url", "http://host", "--until", "-1"],
        ["jobs", "retry"],
        ["jobs", "cancel"],
        ["nonsense"],
    ],
)
def test_bad_usage_is_exit_2_with_a_plain_sentence_before_any_io(
    arguments: list[str], tmp_path: Path, inside: Inside
) -> None:
    code, _, err = inside(*arguments, HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path))
    assert code == 2
    assert "rror: " in err
    assert "Traceback" not in err
    # Not even the embedded server was started.
    assert list(tmp_path.iterdir()) == []


def test_two_million_heights_are_two_hundred_jobs_also_from_two_commands_at_once(
    database_url: str,
) -> None:
    plan = ["plan", "--from", "0", "--to", "2000000", "--database-url", database_url]
    with Program(*plan) as one, Program(*plan) as two:
        assert one.wait() == two.wait() == 0
        assert "no node was asked" in one.out
    assert value(database_url, "select count(*) from indexer.jobs") == 200
    again = run(*plan, "--json")
    assert json.loads(again.stdout)["jobs"] == 0


def test_a_node_clamps_the_plan_to_what_is_final_and_says_so(database_url: str) -> None:
    where = ["--database-url", database_url]
    config = DevnodeConfig(profile="sparse", height=500, finality_depth=100)
    with running_devnode(config) as node:
        asked = [*where, "--rpc-url", node.url]
        clamped = run("plan", "--from", "0", "--to", "1000", *asked)
        assert clamped.returncode == 0, clamped.stderr
        assert "clamped to 401" in clamped.stdout
        assert "0..400" in clamped.stdout
        high_enough = run("plan", "--from", "0", "--to", "300", *asked)
        assert "clamped" not in high_enough.stdout
        node.mine(200)
        more = run("plan", "--from", "0", "--to", "finalized", "--json", *asked)
        assert json.loads(more.stdout)["index_blocks"] == [[401, 600]]
        above = run("plan", "--from", "700", "--to", "800", *asked)
        assert above.returncode == 1
        assert "finalized height is 600" in above.stderr


def test_a_node_without_finality_asks_for_a_depth(database_url: str) -> None:
    config = DevnodeConfig(profile="sparse", height=500, finality_depth=None)
    with running_devnode(config) as node:
        where = ["--database-url", database_url, "--rpc-url", node.url]
        refused = run("plan", "--from", "0", "--to", "100", *where)
        assert refused.returncode == 1
        assert "--finality-depth" in refused.stderr
        assert value(database_url, "select count(*) from indexer.jobs") == 0
        planned = run(
            "plan", "--from", "0", "--to", "1000", "--finality-depth", "50", *where
        )
        assert "0..450" in planned.stdout


def test_sigterm_ends_in_order_with_every_claim_handed_back(database_url: str) -> None:
    config = DevnodeConfig(profile="sparse", height=3000, finality_depth=0)
    with running_devnode(config) as node:
        where = ["--database-url", database_url, "--rpc-url", node.url]
        run("plan", "--from", "0", "--to", "3000", "--range-size", "1000", *where)
        for which, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            with Program(
                "work", "--chunk-blocks", "1", "--grace", "1s", *where
            ) as worker:
                until(
                    lambda: value(
                        database_url,
                        "select count(*) from indexer.jobs where status = 'running' "
                        "and progress is not null",
                    ),
                    what="the worker is in the middle of its ranges",
                )
                worker.signal(which)
                assert worker.wait() == code
            with watching(database_url) as conn:
                rows = conn.execute(
                    "select distinct status, attempts, claim_token from indexer.jobs"
                ).fetchall()
            assert rows == [("pending", 0, None)]
            assert value(database_url, "select count(*) from indexer.workers") == 0


def test_failed_jobs_are_listed_shown_and_retried(database_url: str) -> None:
    where = ["--database-url", database_url]
    with watching(database_url) as conn:
        conn.execute(
            "insert into indexer.jobs (kind, payload) values "
            "('index_blocks', '{\"from\": 9, \"to\": 1}'), ('mail', '{}')"
        )
    config = DevnodeConfig(profile="sparse", height=10, finality_depth=0)
    with running_devnode(config) as node:
        worked = run("work", "--drain", "--rpc-url", node.url, *where)
    assert worked.returncode == 1
    listed = run("jobs", "list", "--status", "failed", "--json", *where)
    [job] = json.loads(listed.stdout)
    assert job["payload"] == {"from": 9, "to": 1}
    assert "reversed" in job["last_error"]
    shown = run("jobs", "show", str(job["id"]), "--json", *where)
    assert json.loads(shown.stdout) == job
    status = json.loads(run("status", "--json", *where).stdout)
    assert status["queue"]["unknown_kinds"] == {"mail": 1}
    assert status["failed"][0]["jobs"] == 1
    assert "mail" in run("status", *where).stdout
    retried = run("jobs", "retry", "--error", "REVERSED", *where)
    assert "1 failed jobs are pending again" in retried.stdout
    cancelled = run("jobs", "cancel", str(job["id"]), *where)
    assert "1 jobs cancelled" in cancelled.stdout
    assert run("jobs", "cancel", str(job["id"]), *where).returncode == 1
    assert run("jobs", "show", "999999", *where).returncode == 1
    assert "cancelled" in run("jobs", "show", str(job["id"]), *where).stdout


def test_every_command_has_help(inside: Inside) -> None:
    _, listed, _ = inside("--help")
    said = " ".join(listed.split())
    for command in _COMMANDS:
        code, out, _ = inside(command, "--help")
        assert code == 0
        assert f"Usage: indexer {command}" in out
        # The list of commands is told what each of them says of itself.
        summary = cli.get_command(click.Context(cli), command)
        assert summary is not None
        assert f" {command} {summary.get_short_help_str(limit=1000)}" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["plan", "--from", "0", "--to", "10"],
        ["status"],
        ["jobs", "list"],
    ],
    ids=" ".join,
)
def test_what_asks_no_node_starts_without_web3(
    arguments: list[str], database_url: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "indexer", *arguments],
        env=clean_environment({"INDEXER_DATABASE_URL": database_url}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\| +click$", done.stderr, re.MULTILINE)
    assert not re.search(r"\| +web3", done.stderr)
