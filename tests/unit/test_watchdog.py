"""Only a tip above every height before resets the clock."""

from __future__ import annotations

import logging

import pytest

from indexer.services.follow.watchdog import Watchdog


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watchdog(clock: Clock) -> Watchdog:
    made = Watchdog(clock)
    made.watch()
    return made


def test_a_flapping_load_balancer_does_not_reset_the_clock(
    clock: Clock, watchdog: Watchdog
) -> None:
    assert watchdog.reached(100)
    for _ in range(61):
        clock.now += 1
        assert not watchdog.reached(75)
        assert not watchdog.reached(100)
    assert watchdog.complaint() == "no new block above block 100 for 61 s"
    assert watchdog.reached(101)
    assert watchdog.complaint() is None


def test_the_complaint_says_what_stands_in_the_way(
    clock: Clock, watchdog: Watchdog
) -> None:
    watchdog.because("the node is asleep")
    assert watchdog.complaint() is None
    clock.now += 100
    assert watchdog.complaint() == "no new block yet for 100 s: the node is asleep"
    watchdog.reached(1)
    clock.now += 100
    assert watchdog.complaint() == "no new block above block 1 for 100 s"


def test_a_chain_of_slow_blocks_is_given_more_time(
    clock: Clock, watchdog: Watchdog
) -> None:
    for height in range(20):
        clock.now += 30
        watchdog.reached(height)
    clock.now += 290
    assert watchdog.complaint() is None
    clock.now += 20
    assert watchdog.complaint() is not None


def test_whoever_stands_by_does_not_complain(clock: Clock, watchdog: Watchdog) -> None:
    watchdog.rest()
    clock.now += 1000
    assert watchdog.complaint() is None
    watchdog.watch()
    assert watchdog.complaint() is None
    clock.now += 100
    watchdog.watch()
    assert watchdog.complaint() is not None


def test_it_warns_once_in_a_while(
    clock: Clock, watchdog: Watchdog, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(200):
            clock.now += 1
            watchdog.warn()
    assert len(caplog.records) == 3
