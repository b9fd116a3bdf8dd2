"""One reply in ten is wrong, at random, over a long range: the tables are the chain.

``make soak`` runs the long version and prints what each process took.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg
import pytest

from indexer.devnode.faults import FaultSchedule
from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from tests.support.memory import peak_bytes
from tests.support.program import Program, run
from tests.support.reader import differences

# Of a worker: 250 MiB, and four times the largest block, which is a dense one.
_BUDGET_BYTES = 250 * 2**20 + 4 * 2**20
_PATIENCE_SECONDS = 3600.0


class Ran(NamedTuple):
    """What a soak took."""

    seconds: float
    requests: int
    faults: int
    kinds: int
    peak_bytes: list[int]


@contextmanager
def _node(profile: str, blocks: int) -> Iterator[Devnode]:
    # Made beforehand: nobody waits a minute for the hash of a final block.
    config = DevnodeConfig(
        profile=profile,
        chain_id=11_155_111,
        height=blocks + 100,
        prepare=blocks + 100,
        seed=4,
    )
    with running_devnode(config) as node:
        yield node


def _soak(
    node: Devnode, database_url: str, *, blocks: int, range_size: int, workers: int
) -> Ran:
    """Index the node's first blocks by some processes while every tenth reply lies."""
    where = ("--database-url", database_url)
    planned = run(
        "plan", "--from", "0", "--to", str(blocks), "--range-size", str(range_size),
        "--rpc-url", node.url, *where,
    )  # fmt: skip
    assert planned.returncode == 0, planned.stderr
    node.counters.clear()
    node.faults.follow(FaultSchedule(seed=blocks, rate=0.1))
    began = time.monotonic()
    programs = [
        Program(
            "work", "--drain", "--rpc-url", node.url, "--max-errors", "3",
            "--poll-interval", "1s", *where,
        )
        for _ in range(workers)
    ]  # fmt: skip
    peaks = [0] * workers
    with psycopg.connect(database_url, autocommit=True) as conn:
        while any(each.process.poll() is None for each in programs):
            assert time.monotonic() - began < _PATIENCE_SECONDS
            for at, program in enumerate(programs):
                if program.process.poll() is None:
                    peaks[at] = max(peaks[at], peak_bytes(program.process.pid))
            # Backoffs of minutes would only make it longer.
            conn.execute(
                "update indexer.jobs set run_at = now() "
                "where status = 'pending' and run_at > now() + interval '1 second'"
            )
            time.sleep(0.2)
    seconds = time.monotonic() - began
    for program in programs:
        with program:
            assert program.wait() == 0, program.err[-4000:]
    ran = Ran(
        seconds,
        node.counters.requests,
        sum(node.faults.tally.values()),
        len(node.faults.tally),
        peaks,
    )
    node.faults.clear()
    return ran


def _assert_whole(node: Devnode, database_url: str, blocks: int, ran: Ran) -> None:
    with psycopg.connect(database_url) as conn:
        left = conn.execute("select kind, payload, last_error from indexer.jobs")
        assert left.fetchall() == []
    found = differences(node.url, database_url, range(blocks))
    # A node's own number of a log is in no hash; where two logs have the same one the
    # position counts, and what the node said is kept beside it.
    assert [each for each in found if "extra holds logIndex" not in each] == []
    assert max(ran.peak_bytes) <= _BUDGET_BYTES


@pytest.mark.parametrize(("profile", "blocks"), [("sparse", 3000), ("dense", 60)])
def test_p1_random_faults_on_a_tenth_of_replies_leave_no_trace(
    database_url: str, profile: str, blocks: int
) -> None:
    with _node(profile, blocks) as node:
        ran = _soak(node, database_url, blocks=blocks, range_size=500, workers=1)
        _assert_whole(node, database_url, blocks, ran)
        assert ran.faults >= 0.05 * ran.requests


@pytest.mark.soak
@pytest.mark.parametrize(
    ("profile", "blocks", "range_size"),
    [("sparse", 50_000, 2_500), ("dense", 2_000, 100)],
)
def test_p1_random_faults_over_a_long_range_leave_no_trace(
    database_url: str,
    profile: str,
    blocks: int,
    range_size: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with _node(profile, blocks) as node:
        ran = _soak(node, database_url, blocks=blocks, range_size=range_size, workers=2)
        with capsys.disabled():
            peaks = ", ".join(f"{each / 2**20:.0f} MiB" for each in ran.peak_bytes)
            print(  # noqa: T201 - the long version is there to be looked at
                f"\n{blocks} {profile} blocks in {ran.seconds:.0f} s: "
                f"{ran.requests} requests, {ran.faults} faults of {ran.kinds} kinds; "
                f"peak memory of the workers {peaks}"
            )
        _assert_whole(node, database_url, blocks, ran)
        assert ran.faults >= 0.05 * ran.requests
