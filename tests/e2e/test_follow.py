"""The follower's promises, watched from outside as fast as a reader can."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from collections.abc import Iterator

import psycopg
import pytest

from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from tests.support.program import Program, run, until, value, watching


@pytest.fixture
def node() -> Iterator[Devnode]:
    config = DevnodeConfig(profile="mixed", height=200, finality_depth=10)
    with running_devnode(config) as running:
        yield running


class Watch(threading.Thread):
    """Looks for a block without its job, or a job without its block."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.looks = 0
        self.torn: list[object] = []
        self.done = threading.Event()

    def run(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as conn:
            while not self.done.is_set():
                row = conn.execute(
                    """
                    select
                        (select count(*) from indexer.blocks),
                        (select count(*) from indexer.jobs),
                        (select count(*) from indexer.blocks as b
                         inner join indexer.jobs as j
                         on j.payload = jsonb_build_object(
                             'height', b.number,
                             'hash', '0x' || encode(b.hash, 'hex')))
                    """
                ).fetchone()
                self.looks += 1
                if row is not None and len(set(row)) != 1:
                    self.torn.append(row)


def test_a_block_and_its_job_are_seen_together_or_not_at_all(
    node: Devnode, database_url: str
) -> None:
    where = ["--database-url", database_url, "--rpc-url", node.ws_url]
    watch = Watch(database_url)
    watch.start()
    try:
        # Killed again and again, wherever it happens to be.
        for round_ in range(5):
            before = value(database_url, "select count(*) from indexer.blocks")
            with Program(
                "follow", "--from", "finalized", "--lease", "1s", *where
            ) as it:
                until(
                    lambda before=before: (
                        value(  # type: ignore[misc]
                            database_url, "select count(*) from indexer.blocks"
                        )
                        != before
                    ),
                    what="it has stored a block",
                )
                for _ in range(3 + round_):
                    node.mine(1)
                it.kill()
            node.mine(1)
    finally:
        watch.done.set()
        watch.join()
    assert watch.looks > 100
    assert watch.torn == []
    assert value(database_url, "select count(*) from indexer.blocks") == value(
        database_url, "select count(distinct payload) from indexer.jobs"
    )


def test_a_contradiction_below_the_finalized_height_stops_it_with_a_clear_error(
    node: Devnode, database_url: str
) -> None:
    where = ["--database-url", database_url, "--rpc-url", node.url]
    first = run("follow", "--from", "180", "--until", "200", *where)
    assert first.returncode == 0, first.stderr
    with watching(database_url) as conn:
        conn.execute("update indexer.blocks set hash = sha256('x') where number >= 185")
    node.mine(3)
    second = run("follow", *where)
    assert second.returncode == 1
    # 190 was final when the first one ended, 193 is now: whichever it has heard of.
    named = re.search(r"block (190|193) is stored with hash 0x", second.stderr)
    assert named, second.stderr
    height = int(named[1])
    assert f"`indexer verify --from {height} --to {height + 1} --repair`" in (
        second.stderr
    )
    assert "Traceback" not in second.stderr
    # Whoever looks later is told, too, though the process is gone.
    said = f"block {height} is stored with hash 0x"
    found = json.loads(run("status", "--json", *where[:2]).stdout)
    assert said in found["tip"]["contradiction"]
    assert "contradiction" in run("status", *where[:2]).stdout
    with Program("exporter", "--port", "0", *where[:2]) as exporter:
        port = exporter.expect(r"metrics on port (\d+)")[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
            assert 'indexer_tip_contradicted{schema="indexer"} 1.0' in (
                reply.read().decode().splitlines()
            )
    assert value(database_url, "select max(number) from indexer.blocks") == 200
    assert value(database_url, "select count(*) from indexer.blocks") == 21


def test_what_lies_below_the_tip_is_planned_once_something_was_planned(
    node: Devnode, database_url: str
) -> None:
    where = ["--database-url", database_url, "--rpc-url", node.url]
    said = run(
        "follow", "--from", "195", "--until", "196", "--log-format", "text", *where
    )
    assert "indexer plan --from 0 --to 195" in said.stderr
    assert value(database_url, "select count(*) from indexer.plans") == 0
    planned = run("plan", "--from", "0", "--to", "50", *where)
    assert planned.returncode == 0, planned.stderr
    followed = run("follow", "--until", "200", *where)
    assert followed.returncode == 0, followed.stderr
    drained = run("work", "--drain", *where)
    assert drained.returncode == 0, drained.stderr
    assert value(database_url, "select count(*) from indexer.blocks") == 201


def test_a_second_follower_stands_by_and_takes_over(
    node: Devnode, database_url: str
) -> None:
    where = ["--database-url", database_url, "--rpc-url", node.url, "--lease", "1s"]
    text = ["--log-format", "text"]
    with Program("follow", "--from", "195", *text, *where) as active:
        active.expect("following from block 195")
        with Program("follow", *text, *where) as standby:
            standby.expect("standing by")
            active.kill()
            node.mine(2)
            standby.expect("following from block")
            until(
                lambda: (
                    value(database_url, "select max(number) from indexer.blocks") == 202
                ),
                what="the standby has stored the new blocks",
            )
    assert value(database_url, "select count(*) from indexer.blocks") == 8
    assert value(database_url, "select count(*) from indexer.jobs") == 8
