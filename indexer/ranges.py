"""Interval algebra over block heights; pure.

A :class:`BlockRange` is inclusive at both ends, like the payload of a job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class BlockRange(NamedTuple):
    """Heights ``first`` to ``last``, both included; never empty."""

    first: int
    last: int

    def __len__(self) -> int:
        """Return how many heights the range holds."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"

    def heights(self) -> range:
        """Return the heights in order."""
        return range(self.first, self.last + 1)


def split(whole: BlockRange, size: int) -> Iterator[BlockRange]:
    """Cut a range at the multiples of ``size``.

    The cuts do not depend on where the range starts, so that two plans over
    overlapping ranges cut at the same heights.
    """
    first = whole.first
    while first <= whole.last:
        last = min(whole.last, (first // size + 1) * size - 1)
        yield BlockRange(first, last)
        first = last + 1


def union(ranges: Iterable[BlockRange]) -> list[BlockRange]:
    """Return the same heights as the fewest disjoint ranges, in order."""
    merged: list[BlockRange] = []
    for item in sorted(ranges):
        if merged and item.first <= merged[-1].last + 1:
            if item.last > merged[-1].last:
                merged[-1] = BlockRange(merged[-1].first, item.last)
        else:
            merged.append(item)
    return merged


def difference(
    ranges: Iterable[BlockRange], taken: Iterable[BlockRange]
) -> list[BlockRange]:
    """Return the heights of ``ranges`` that are in none of ``taken``, in order."""
    left: list[BlockRange] = []
    cuts = union(taken)
    position = 0
    for item in union(ranges):
        first = item.first
        while position < len(cuts) and cuts[position].last < first:
            position += 1
        index = position
        while index < len(cuts) and cuts[index].first <= item.last:
            if cuts[index].first > first:
                left.append(BlockRange(first, cuts[index].first - 1))
            first = max(first, cuts[index].last + 1)
            index += 1
        if first <= item.last:
            left.append(BlockRange(first, item.last))
    return left


def intersection(
    ranges: Iterable[BlockRange], within: Iterable[BlockRange]
) -> list[BlockRange]:
    """Return the heights that are in both, in order."""
    first = union(ranges)
    return difference(first, difference(first, within))


def gaps(present: Iterable[BlockRange], whole: BlockRange) -> list[BlockRange]:
    """Return the maximal runs of heights of ``whole`` that are not present."""
    return difference([whole], present)


def runs(heights: Iterable[int]) -> list[BlockRange]:
    """Return single heights as the fewest ranges."""
    return union(BlockRange(height, height) for height in heights)


def count(ranges: Iterable[BlockRange]) -> int:
    """Return how many heights the disjoint ranges hold."""
    return sum(len(item) for item in ranges)
