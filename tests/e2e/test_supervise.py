"""Several worker processes under one that watches them."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import psutil
import pytest

from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from tests.support.program import Program, run, until, value, watching
from tests.support.reader import differences

PLANNED = 600
RANGE = 100


@pytest.fixture
def node() -> Iterator[Devnode]:
    config = DevnodeConfig(profile="sparse", height=PLANNED + 100, finality_depth=64)
    with running_devnode(config) as running:
        yield running


def children(program: Program) -> list[psutil.Process]:
    return psutil.Process(program.process.pid).children()


def workers(database_url: str) -> int:
    """How many workers hold a job."""
    query = "select count(distinct locked_by) from indexer.jobs where status='running'"
    return int(str(value(database_url, query)))


def where(node: Devnode, database_url: str) -> list[str]:
    run(
        *("plan", "--from", "0", "--to", str(PLANNED), "--range-size", str(RANGE)),
        *("--database-url", database_url, "--rpc-url", node.url),
    )
    return [
        *("--database-url", database_url, "--rpc-url", node.url),
        *("--processes", "2", "--concurrency", "3", "--chunk-blocks", "4"),
        *("--lease", "2s", "--verify", "off"),
    ]


def test_p2_a_child_that_is_killed_is_started_again_and_its_job_goes_on(
    node: Devnode, database_url: str
) -> None:
    options = where(node, database_url)
    with Program("work", "--drain", *options) as program:
        until(lambda: workers(database_url) == 2, what="both processes work")
        doomed = children(program)[0]
        doomed.kill()
        until(
            lambda: (
                len(children(program)) == 2
                and doomed.pid not in {each.pid for each in children(program)}
            ),
            what="another took its place",
        )
        # Tests age rows, they do not sleep.
        until(
            lambda: (
                value(
                    database_url,
                    "with due as (update indexer.jobs set run_at = now() "
                    "where status = 'pending' and run_at > now() returning 1) "
                    "select count(*) = 0 from indexer.jobs",
                )
                is True
            ),
            what="everything is done",
        )
        assert program.wait() == 0
        assert "died (SIGKILL)" in program.err
    assert differences(node.url, database_url, range(PLANNED)) == []


def test_p3_sigterm_hands_everything_back_and_leaves_no_process(
    node: Devnode, database_url: str
) -> None:
    options = where(node, database_url)
    with Program("work", *options, "--grace", "5s") as program:
        until(lambda: workers(database_url) == 2, what="both processes work")
        mine = children(program)
        # As a service manager does: to the one that watches and to its children.
        for each in (*mine, psutil.Process(program.process.pid)):
            each.send_signal(signal.SIGTERM)
        assert program.wait() == 128 + signal.SIGTERM
        assert not any(each.is_running() for each in mine)
    assert (
        value(database_url, "select count(*) from indexer.jobs_all where attempts > 1")
        == 0
    )
    assert workers(database_url) == 0


def test_children_whose_supervisor_is_killed_hand_back_and_end(
    node: Devnode, database_url: str
) -> None:
    options = where(node, database_url)
    with Program("work", *options) as program:
        until(lambda: workers(database_url) == 2, what="both processes work")
        mine = children(program)
        program.process.kill()
        until(lambda: not any(each.is_running() for each in mine), what="they ended")
    assert workers(database_url) == 0


_WORKERS = "select count(*) from indexer.workers where role = 'work'"


def test_the_tips_jobs_get_a_process_of_their_own_while_somebody_follows(
    node: Devnode, database_url: str
) -> None:
    pending = "select count(*) from indexer.jobs where status = 'pending'"
    options = ["--database-url", database_url, "--rpc-url", node.ws_url]
    with Program("work", "--lease", "2s", *options) as worker:
        until(lambda: value(database_url, _WORKERS) == 1, what="it works alone")
        assert children(worker) == []
        with Program("follow", "--from", "latest", *options) as follower:
            until(lambda: value(database_url, _WORKERS) == 2, what="there are two")
            [child] = children(worker)

            until(lambda: value(database_url, pending) == 0, what="nothing is left")

            def has_done_one() -> bool:
                node.mine(1)
                name = f"%:{child.pid}:%"
                with watching(database_url) as conn:
                    found = conn.execute(
                        "select from indexer.jobs_history where locked_by like %s",
                        [name],
                    ).fetchall()
                return bool(found)

            until(has_done_one, what="the process does the tip's jobs")
            # One that dies is made again, and the tip waits for nobody meanwhile.
            child.kill()
            node.mine(10)
            head = node.chain.head
            until(
                lambda: value(
                    database_url,
                    f"select count(*) = 10 from indexer.jobs_history where "
                    f"(payload ->> 'height')::bigint > {head - 10}",
                ),
                what="the tip goes on",
            )
            until(lambda: children(worker) not in ([], [child]), what="another came")
            follower.process.terminate()
            assert follower.wait() == 143
        worker.process.terminate()
        assert worker.wait() == 143
