"""Two followers on one schema: one writes, whatever becomes of the other."""

from __future__ import annotations

import re
import signal
import urllib.request
from collections.abc import Iterator

import pytest

from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from tests.support.following import Reader
from tests.support.program import Program, run, until, value, watching
from tests.support.reader import differences

HEIGHT = 200
START = 150


@pytest.fixture
def node() -> Iterator[Devnode]:
    config = DevnodeConfig(profile="mixed", height=HEIGHT, finality_depth=100)
    with running_devnode(config) as running:
        yield running


def follow(node: Devnode, database_url: str) -> Program:
    return Program(
        "follow", "--from", str(START), "--lease", "2s", "--log-format", "text",
        "--database-url", database_url, "--rpc-url", node.ws_url,
    )  # fmt: skip


def until_tip(node: Devnode, database_url: str) -> None:
    head = node.chain.head
    until(
        lambda: (
            value(
                database_url,
                f"select encode(hash, 'hex') from indexer.blocks where number = {head}",
            )
            == node.chain.hash_at(head).hex()
        ),
        what=f"block {head} is stored",
    )


def holder(database_url: str) -> int:
    """Return the process that holds the role."""
    name = str(value(database_url, "select holder from indexer.leases"))
    return int(name.split(":")[1])


def check(node: Devnode, database_url: str) -> None:
    """Every block once and right, with one job for its events each."""
    where = ["--database-url", database_url, "--rpc-url", node.url]
    worked = run("work", "--drain", *where)
    assert worked.returncode == 0, worked.stderr
    head = node.chain.head
    assert differences(node.url, database_url, range(START, head + 1)) == []
    assert (
        value(database_url, "select count(*) from indexer.jobs_history")
        == value(
            database_url, "select count(distinct payload) from indexer.jobs_history"
        )
        == head - START + 1
    )


def test_a_standby_goes_on_within_the_lease_of_one_that_was_killed(
    node: Devnode, database_url: str
) -> None:
    with Reader(database_url), follow(node, database_url) as active:
        active.expect(f"following from block {START}")
        until_tip(node, database_url)
        with follow(node, database_url) as standby:
            standby.expect("follows already; standing by")
            active.kill()
            node.mine(3)
            # The lease and what it takes to look: no more than another second.
            with watching(database_url) as conn:
                late = conn.execute(
                    "select locked_until + interval '1 second' from indexer.leases"
                ).fetchone()
            standby.expect("following from block")
            until_tip(node, database_url)
            taken = value(database_url, "select acquired_at from indexer.leases")
            assert late is not None
            assert taken < late[0]  # type: ignore[operator]
            node.mine(3)
            until_tip(node, database_url)
    check(node, database_url)


def test_one_that_was_stopped_and_wakes_late_writes_not_one_row(
    node: Devnode, database_url: str
) -> None:
    with (
        Reader(database_url),
        follow(node, database_url) as one,
        follow(node, database_url) as other,
    ):
        until_tip(node, database_url)
        for turn in range(3):
            pid = holder(database_url)
            sleeper, awake = (one, other) if one.process.pid == pid else (other, one)
            # In the middle of its work, as far as that can be had.
            node.mine(5 + 20 * turn)
            sleeper.signal(signal.SIGSTOP)
            until(
                lambda awake=awake: holder(database_url) == awake.process.pid,  # type: ignore[misc]
                what="the other one has taken over",
            )
            node.mine(3)
            until_tip(node, database_url)
            # The chain it knew is not the chain any more.
            node.reorg(2)
            until_tip(node, database_url)
            sleeper.signal(signal.SIGCONT)
            node.mine(3)
            until_tip(node, database_url)
            until(
                lambda sleeper=sleeper, turn=turn: (  # type: ignore[misc]
                    len(re.findall("standing by", sleeper.err)) > turn // 2
                ),
                what="the sleeper has noticed",
            )
            assert holder(database_url) == awake.process.pid
        assert one.process.poll() is None
        assert other.process.poll() is None
    assert value(database_url, "select count(*) from indexer.reorgs") == 3
    # Jobs of the replaced blocks were not run by anybody: no worker was there.
    check(node, database_url)


def test_one_killed_in_the_middle_of_a_reorganisation_leaves_it_to_the_other(
    node: Devnode, database_url: str
) -> None:
    with Reader(database_url), follow(node, database_url) as active:
        until_tip(node, database_url)
        with watching(database_url) as conn, conn.transaction():
            # The reorganisation waits here, its transaction open.
            conn.execute("select from indexer.blocks where number = 200 for key share")
            node.reorg(3)
            until(
                lambda: value(
                    database_url,
                    "select count(*) from pg_stat_activity where wait_event_type "
                    "= 'Lock' and application_name = 'indexer follow' "
                    "and datname = current_database()",
                ),
                what="the reorganisation is under way",
            )
            active.kill()
        assert value(database_url, "select max(number) from indexer.blocks") == HEIGHT
        with follow(node, database_url) as again:
            again.expect("reorganisation: blocks 198..200 are replaced by 198..201")
            until_tip(node, database_url)
    assert value(database_url, "select count(*) from indexer.reorgs") == 1
    check(node, database_url)


def test_its_metrics_tell_the_tip_and_what_was_replaced(
    node: Devnode, database_url: str
) -> None:
    with Program(
        "follow", "--from", str(START), "--metrics-port", "0", "--log-format", "text",
        "--database-url", database_url, "--rpc-url", node.url,
    ) as it:  # fmt: skip
        port = it.expect(r"metrics on port (\d+)\n")[1]
        until_tip(node, database_url)
        node.reorg(2)
        until_tip(node, database_url)

        def read(path: str) -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}") as response:
                text: str = response.read().decode()
                return text

        assert read("ready") == "ready\n"
        until(
            lambda: f"indexer_tip_height {float(HEIGHT + 1)}" in read("metrics"),
            what="the metrics show the tip",
        )
        shown = read("metrics")
    for line in (
        f"indexer_head_height {float(HEIGHT + 1)}",
        "indexer_reorgs_total 1.0",
        "indexer_blocks_replaced_total 2.0",
        f"indexer_blocks_stored_total {float(HEIGHT - START + 1 + 3)}",
    ):
        assert line in shown
