"""Deterministic bytes: the only source of chance in a chain."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import shake_128
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """A stream of pseudo-random bytes that depends on its key alone.

    ``expected`` is how many bytes will be taken; more may be, at the cost of
    squeezing the sponge again from its start.
    """

    __slots__ = ("_at", "_bytes", "_key")

    def __init__(self, key: bytes, expected: int) -> None:
        self._key = key
        self._bytes = shake_128(key).digest(expected)
        self._at = 0

    def take(self, count: int) -> bytes:
        """Return the next ``count`` bytes."""
        start = self._at
        end = start + count
        if end > len(self._bytes):
            self._bytes = shake_128(self._key).digest(2 * end)
        self._at = end
        return self._bytes[start:end]

    def number(self, count: int) -> int:
        """Return a number of ``count`` random bytes."""
        return int.from_bytes(self.take(count), "big")

    def below(self, bound: int) -> int:
        """Return a number from 0 to ``bound`` - 1, ``bound`` up to 65,536."""
        return int.from_bytes(self.take(4), "big") % bound

    def choice(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[int.from_bytes(self.take(4), "big") % len(options)]

    def shuffle(self, items: list[T]) -> None:
        """Put the items in a random order (Fisher-Yates)."""
        chances = self.take(2 * len(items))
        for last in range(len(items) - 1, 0, -1):
            other = (chances[2 * last] << 8 | chances[2 * last + 1]) % (last + 1)
            items[last], items[other] = items[other], items[last]
