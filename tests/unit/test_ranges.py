from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from indexer.ranges import (
    BlockRange,
    count,
    difference,
    gaps,
    intersection,
    runs,
    split,
    union,
)

RANGES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 20)).map(
        lambda pair: BlockRange(pair[0], pair[0] + pair[1])
    ),
    max_size=8,
)


def heights(ranges: list[BlockRange]) -> set[int]:
    return {height for each in ranges for height in each.heights()}


def is_canonical(ranges: list[BlockRange]) -> bool:
    return all(
        first.last + 1 < second.first for first, second in itertools.pairwise(ranges)
    )


@given(RANGES, RANGES)
def test_the_algebra_is_that_of_sets(
    one: list[BlockRange], two: list[BlockRange]
) -> None:
    for result, expected in (
        (union(one + two), heights(one) | heights(two)),
        (difference(one, two), heights(one) - heights(two)),
        (intersection(one, two), heights(one) & heights(two)),
        (runs(heights(one)), heights(one)),
    ):
        assert heights(result) == expected
        assert is_canonical(result)
        assert count(result) == len(expected)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 70))
def test_split_cuts_at_multiples_and_loses_nothing(
    first: int, length: int, size: int
) -> None:
    whole = BlockRange(first, first + length)
    pieces = list(split(whole, size))
    assert heights(pieces) == set(whole.heights())
    assert all(len(piece) <= size for piece in pieces)
    assert all(piece.first % size == 0 for piece in pieces[1:])


def test_two_million_heights_are_two_hundred_ranges_of_ten_thousand() -> None:
    pieces = list(split(BlockRange(0, 1_999_999), 10_000))
    assert len(pieces) == 200
    assert pieces[0] == BlockRange(0, 9_999)
    assert pieces[-1] == BlockRange(1_990_000, 1_999_999)


def test_gaps_are_what_is_not_present() -> None:
    assert gaps([BlockRange(2, 3), BlockRange(7, 9)], BlockRange(0, 9)) == [
        BlockRange(0, 1),
        BlockRange(4, 6),
    ]
