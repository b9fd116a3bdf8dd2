"""What an endpoint can take is learned, and a failing one left alone."""

from __future__ import annotations

from random import Random

import pytest

from indexer.chain.health import Breaker, Trust
from indexer.chain.limits import BATCH_BYTES, BatchSize, InFlight


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _sizes(first: int = 10, largest: int = 100) -> BatchSize:
    return BatchSize(Clock(), first=first, largest=largest)


def test_batches_double_until_the_first_refusal_and_then_grow_by_one() -> None:
    sizes = _sizes()
    sizes.fitted("m", 10, 100)
    sizes.fitted("m", 20, 200)
    assert sizes.size("m") == 40
    sizes.refused("m", 40)
    assert sizes.size("m") == 20
    sizes.fitted("m", 20, 200)
    assert sizes.size("m") == 21


def test_batches_never_leave_one_and_the_largest() -> None:
    sizes = _sizes(largest=30)
    for _ in range(5):
        sizes.fitted("m", sizes.size("m"), 0)
    assert sizes.size("m") == 30
    for _ in range(10):
        sizes.refused("m", sizes.size("m"))
    assert sizes.size("m") == 1


def test_a_size_that_was_refused_is_not_sent_again_for_ten_minutes() -> None:
    clock = Clock()
    sizes = BatchSize(clock, first=80, largest=500)
    sizes.refused("m", 80)
    for _ in range(200):
        sizes.fitted("m", sizes.size("m"), 0)
    assert sizes.size("m") == 79
    clock.now += 601
    for _ in range(200):
        sizes.fitted("m", sizes.size("m"), 0)
    assert sizes.size("m") == 79 + 8


def test_what_fails_for_no_reason_is_a_refusal_the_second_time() -> None:
    sizes = _sizes(first=40)
    sizes.suspected_of("m", 40)
    assert sizes.size("m") == 40
    sizes.suspected_of("m", 40)
    assert sizes.size("m") == 20


def test_what_fails_by_chance_is_no_refusal() -> None:
    sizes = _sizes(first=40, largest=40)
    for _ in range(20):
        sizes.suspected_of("m", 40)
        sizes.fitted("m", 40, 0)
    assert sizes.size("m") == 40


def test_too_many_bytes_of_one_kind_do_not_make_batches_of_others_smaller() -> None:
    sizes = _sizes(first=100)
    sizes.fitted("sparse", 100, 100_000)
    sizes.fitted("dense", 10, 5_000_000)
    sizes.refused("dense", 10)
    assert sizes.size("sparse") == 100
    assert sizes.size("dense") == 5


def test_limits_survive_the_process() -> None:
    sizes = _sizes(first=80)
    sizes.refused("m", 80)
    other = _sizes()
    other.restore(sizes.learned())
    for _ in range(100):
        other.fitted("m", other.size("m"), 0)
    assert other.size("m") == 79
    other.restore({"batch_size": "many", "batch_ceiling": None, "batch_bytes": -1})
    assert other.size("m") == 79


def test_a_part_of_a_batch_says_nothing_about_larger_ones() -> None:
    sizes = _sizes(largest=30)
    sizes.fitted("m", 3, 100)
    assert sizes.size("m") == 10


def test_p1_batches_are_sized_by_bytes_per_method() -> None:
    sizes = _sizes(first=500, largest=500)
    sizes.fitted("dense", 4, BATCH_BYTES)
    assert sizes.size("dense") == 4
    assert sizes.size("other") == 500
    sizes.fitted("dense", 1, 2 * BATCH_BYTES)
    assert sizes.size("dense") == 1
    for _ in range(100):
        sizes.fitted("dense", 1, 1)
    assert sizes.size("dense") == 500


def _answer(flights: InFlight, clock: Clock, *, per_second: float) -> None:
    for _ in range(2 * flights.limit):
        while flights.has_room():
            flights.began()
        clock.now += 1 / per_second
        flights.ended()
        flights.succeeded(1000)


def test_more_are_in_flight_while_that_brings_more() -> None:
    clock = Clock()
    flights = InFlight(clock, first=4, largest=8)
    for _ in range(10):
        _answer(flights, clock, per_second=10.0 * flights.limit)
    assert flights.limit == 8


def test_no_more_are_in_flight_than_bring_more() -> None:
    clock = Clock()
    flights = InFlight(clock, first=4, largest=16)
    for _ in range(20):
        _answer(flights, clock, per_second=10.0 * min(6, flights.limit))
    assert flights.limit in (6, 7)


def test_fewer_are_in_flight_where_the_node_suffers() -> None:
    clock = Clock()
    flights = InFlight(clock, first=8)
    for _ in range(5):
        flights.suffered(sent_at=99.0)
    assert flights.limit == 4
    for _ in range(5):
        clock.now += 1
        flights.suffered(sent_at=clock.now)
    assert flights.limit == 2


def test_what_is_urgent_has_room_beyond_the_limit() -> None:
    flights = InFlight(Clock(), first=1)
    flights.began()
    assert not flights.has_room()
    assert flights.has_room(urgent=True)


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


def test_one_tries_a_failed_endpoint_while_the_others_wait() -> None:
    clock = Clock()
    breaker = Breaker(clock, Random(1))
    breaker.failed(clock.now)
    clock.now += 10
    assert breaker.wait_seconds() == 0.0
    breaker.probing()
    assert breaker.wait_seconds() > 0.0
    breaker.succeeded()
    breaker.probing()
    assert breaker.wait_seconds() == 0.0


def test_an_offender_is_in_disgrace_for_longer_each_time_and_only_time_heals() -> None:
    clock = Clock()
    trust = Trust(clock)
    assert not trust.is_lost
    trust.offended()
    clock.now += 6
    assert not trust.is_lost
    trust.offended()
    clock.now += 6
    assert trust.is_lost
    for _ in range(20):
        trust.offended()
    clock.now += 599
    assert trust.is_lost
    clock.now += 2
    assert not trust.is_lost


@pytest.mark.parametrize("first", [1, 20])
def test_nothing_is_known_of_a_node_at_first(first: int) -> None:
    assert _sizes(first=first).size("m") == first
