"""What an endpoint can take is learned, and a failing one left alone."""

from __future__ import annotations

from random import Random

import pytest

from indexer.chain.limits import BATCH_BYTES, BatchSize, Breaker, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_batches_double_until_the_first_refusal_and_then_grow_by_one() -> None:
    sizes = BatchSize(first=10, largest=100)
    sizes.fitted("m", 10, 100)
    sizes.fitted("m", 20, 200)
    assert sizes.size("m") == 40
    sizes.refused(40)
    assert sizes.size("m") == 20
    sizes.fitted("m", 20, 200)
    assert sizes.size("m") == 21


def test_batches_never_leave_one_and_the_largest() -> None:
    sizes = BatchSize(first=10, largest=30)
    for _ in range(5):
        sizes.fitted("m", sizes.size("m"), 100)
    assert sizes.size("m") == 30
    for _ in range(10):
        sizes.refused(sizes.size("m"))
    assert sizes.size("m") == 1


def test_a_part_of_a_batch_says_nothing_about_larger_ones() -> None:
    sizes = BatchSize(first=10, largest=30)
    sizes.fitted("m", 3, 100)
    assert sizes.size("m") == 10


def test_p1_batches_are_sized_by_bytes_per_method() -> None:
    sizes = BatchSize(first=500)
    sizes.fitted("dense", 4, BATCH_BYTES)
    assert sizes.size("dense") == 4
    assert sizes.size("other") == 500
    sizes.fitted("dense", 1, 2 * BATCH_BYTES)
    assert sizes.size("dense") == 1
    for _ in range(100):
        sizes.fitted("dense", 1, 1)
    assert sizes.size("dense") == 500


def test_requests_are_spread_over_time() -> None:
    clock = Clock()
    pace = Pace(10.0, clock)
    assert pace.wait_seconds(5) == 0.0
    assert pace.wait_seconds(1) == pytest.approx(0.5)
    clock.now += 10
    assert pace.wait_seconds(1) == 0.0


def test_without_a_rate_nothing_waits() -> None:
    assert Pace(None, Clock()).wait_seconds(1000) == 0.0


def test_a_failing_endpoint_is_left_alone_for_longer_each_time() -> None:
    clock = Clock()
    breaker = Breaker(clock, Random(1))
    waits = []
    for _ in range(12):
        breaker.failed(clock.now)
        waits.append(breaker.wait_seconds())
        clock.now += waits[-1] + 0.1
        assert breaker.wait_seconds() == 0.0
    assert 0.25 <= waits[0] <= 0.75
    assert waits[-1] == 30.0
    breaker.succeeded()
    breaker.failed(clock.now)
    assert breaker.wait_seconds() <= 0.75


def test_requests_that_failed_together_are_one_failure() -> None:
    clock = Clock()
    breaker = Breaker(clock, Random(1))
    for _ in range(20):
        breaker.failed(sent_at=99.0)
    assert breaker.wait_seconds() <= 0.75


def test_an_endpoint_that_names_a_time_is_never_asked_before_it() -> None:
    breaker = Breaker(Clock(), Random(1))
    breaker.failed(100.0, at_least=60.0)
    assert breaker.wait_seconds() >= 60.0


def test_an_answer_ends_the_wait() -> None:
    breaker = Breaker(Clock(), Random(1))
    breaker.failed(100.0)
    breaker.succeeded()
    assert breaker.wait_seconds() == 0.0
