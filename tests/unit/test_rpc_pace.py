"""Requests are spread over time, by what is given and by what a node refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from indexer.chain.gate import Gate, urgent
from indexer.chain.limits import InFlight
from indexer.chain.pace import Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Bucket:
    """A node that lets ``rate`` requests a second through, and ``size`` at once."""

    def __init__(self, clock: Clock, rate: float, size: float) -> None:
        self.rate, self.size = rate, size
        self._clock = clock
        self._tokens, self._at = size, clock.now

    def admits(self, requests: int) -> bool:
        passed = self._clock.now - self._at
        self._tokens = min(self.size, self._tokens + passed * self.rate)
        self._at = self._clock.now
        admitted = self._tokens >= min(requests, self.size)
        if admitted:
            self._tokens -= requests
        return admitted


def _drive(pace: Pace, clock: Clock, bucket: Bucket, seconds: float) -> tuple[int, int]:
    """Ask as fast as the pace allows; return how many were accepted and refused."""
    accepted = refused = 0
    end = clock.now + seconds
    while clock.now < end:
        clock.now += pace.wait_seconds()
        batch = min(20, pace.largest_batch or 20)
        pace.book(batch)
        sent_at = clock.now
        clock.now += 0.002
        if bucket.admits(batch):
            pace.accepted(batch)
            accepted += batch
        else:
            pace.limited(sent_at, retry_after=None)
            refused += 1
    return accepted, refused


@pytest.mark.parametrize("rate", [0.5, 2.0, 10.0])
def test_a_given_rate_is_kept_in_every_second(rate: float) -> None:
    clock = Clock()
    pace = Pace(rate, clock)
    sent: list[float] = []
    while clock.now < 130:
        clock.now += pace.wait_seconds()
        batch = pace.largest_batch or 0
        pace.book(batch)
        sent += [clock.now] * batch
    assert len(sent) == pytest.approx(30 * rate, abs=3)
    worst = max(sum(at <= each < at + 1 for each in sent) for at in sent)
    assert worst <= 1.5 * rate + 1


def test_idle_time_is_not_saved_up() -> None:
    clock = Clock()
    pace = Pace(10.0, clock)
    clock.now += 60
    assert pace.wait_seconds() == 0.0
    pace.book(2)
    pace.book(2)
    assert pace.wait_seconds() >= 0.2


def test_without_a_rate_nothing_waits() -> None:
    pace = Pace(None, Clock())
    pace.book(1000)
    assert pace.wait_seconds() == 0.0
    assert pace.largest_batch is None


@pytest.mark.parametrize(
    ("rate", "size", "part"),
    [(20, 20, 0.9), (100, 100, 0.9), (3, 3, 0.7), (20, 1, 0.5)],
)
def test_a_rate_is_found_from_a_few_refusals_and_kept(
    rate: float, size: float, part: float
) -> None:
    clock = Clock()
    pace = Pace(None, clock)
    bucket = Bucket(clock, rate, size)
    _, refused = _drive(pace, clock, bucket, 20)
    assert refused <= 25
    accepted, refused = _drive(pace, clock, bucket, 60)
    assert accepted >= part * 60 * rate
    assert refused <= 15


def test_a_rate_that_rises_is_noticed() -> None:
    clock = Clock()
    pace = Pace(None, clock)
    bucket = Bucket(clock, 20, 20)
    _drive(pace, clock, bucket, 30)
    bucket.rate = 40
    _drive(pace, clock, bucket, 400)
    accepted, _ = _drive(pace, clock, bucket, 60)
    assert accepted >= 0.9 * 60 * 40


def test_a_hiccup_is_no_limit() -> None:
    clock = Clock()
    pace = Pace(None, clock)
    for _ in range(50):
        pace.limited(clock.now, retry_after=None)
        clock.now += 10
        for _ in range(30):
            pace.accepted(20)
    assert pace.rate is None


def test_the_time_a_node_asks_for_is_kept() -> None:
    clock = Clock()
    pace = Pace(None, clock)
    pace.limited(clock.now, retry_after=17.0)
    assert pace.wait_seconds() == 17.0
    assert pace.pause_seconds() == 17.0


def test_a_share_of_the_rate_is_left_to_others() -> None:
    pace = Pace(20.0, Clock())
    pace.share = 0.75
    assert pace.rate == 15.0


def test_a_rate_survives_the_process() -> None:
    clock = Clock()
    pace = Pace(None, clock)
    bucket = Bucket(clock, 20, 20)
    _drive(pace, clock, bucket, 20)
    other = Pace(None, clock)
    other.restore(pace.learned())
    accepted, refused = _drive(other, clock, bucket, 30)
    assert accepted >= 0.9 * 30 * 20
    assert refused <= 4
    other.restore({"requests_per_second": "fast"})
    assert other.rate is not None


@pytest.fixture
def order() -> Iterator[list[str]]:
    yield []


async def _ask(gate: Gate, name: str, order: list[str], held: asyncio.Event) -> None:
    async with gate.passing(1):
        order.append(name)
        await held.wait()


async def _queued(gate: Gate, count: int) -> None:
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(gate._line) == count


async def test_the_tip_stands_before_the_backfill_in_the_line(order: list[str]) -> None:
    clock = Clock()
    gate = Gate(Pace(None, clock), InFlight(clock, first=1, largest=1))
    held = asyncio.Event()
    tasks = [asyncio.create_task(_ask(gate, "running", order, held))]
    await asyncio.sleep(0)
    for name in ("backfill", "more"):
        tasks.append(asyncio.create_task(_ask(gate, name, order, held)))
    await _queued(gate, 2)
    with urgent():
        for name in ("tip 1", "tip 2", "tip 3"):
            tasks.append(asyncio.create_task(_ask(gate, name, order, held)))
    await _queued(gate, 3)
    # Two of them go at once, beyond what is allowed in flight.
    assert order == ["running", "tip 1", "tip 2"]
    held.set()
    await asyncio.gather(*tasks)
    assert order[3:] == ["tip 3", "backfill", "more"]


async def test_who_gives_up_waiting_leaves_the_line(order: list[str]) -> None:
    clock = Clock()
    gate = Gate(Pace(None, clock), InFlight(clock, first=1, largest=1))
    held = asyncio.Event()
    first = asyncio.create_task(_ask(gate, "first", order, held))
    await asyncio.sleep(0)
    gone = asyncio.create_task(_ask(gate, "gone", order, held))
    last = asyncio.create_task(_ask(gate, "last", order, held))
    await _queued(gate, 2)
    gone.cancel()
    held.set()
    await asyncio.gather(first, last)
    assert order == ["first", "last"]
    assert not gate.is_full
