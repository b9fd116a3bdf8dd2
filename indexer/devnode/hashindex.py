"""From a hash to where it stands, for millions of hashes."""

from __future__ import annotations

from array import array
from typing import Final

# So many that none takes long to grow: a node answers nobody meanwhile, and moving half
# a million entries at once took 130 ms.
_PARTS: Final = 64
_FIRST_SLOTS: Final = 1 << 6


class HashIndex:
    """An open-addressing table from hashes to numbers, 24 to 48 bytes an entry.

    A dict of two million 32-byte keys takes 340 MB; this takes 64. Only the
    first eight bytes of a hash are kept, so a hit is a candidate: the caller
    compares the whole hash. Entries are never removed, a later one for the same
    hash replaces the earlier.
    """

    def __init__(self) -> None:
        self._parts = [_Part() for _ in range(_PARTS)]

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def put(self, key: bytes, value: int) -> None:
        """Remember where a hash stands; ``value`` is below 2^64 - 1."""
        self._parts[key[0] % _PARTS].put(_short(key), value)

    def get(self, key: bytes) -> int | None:
        """Return where a hash may stand, ``None`` where it surely does not."""
        return self._parts[key[0] % _PARTS].get(_short(key))


def _short(key: bytes) -> int:
    return int.from_bytes(key[:8], "big")


class _Part:
    """The entries of some hashes."""

    def __init__(self) -> None:
        self._size = 0
        self._allocate(_FIRST_SLOTS)

    def __len__(self) -> int:
        return self._size

    def put(self, short: int, value: int) -> None:
        slot = self._slot(short)
        if self._values[slot] == 0:
            self._size += 1
        self._keys[slot] = short
        self._values[slot] = value + 1
        if 3 * self._size > 2 * (self._mask + 1):
            self._grow()

    def get(self, short: int) -> int | None:
        found = self._values[self._slot(short)]
        return found - 1 if found else None

    def _allocate(self, slots: int) -> None:
        self._mask = slots - 1
        self._keys = array("Q", bytes(8 * slots))
        self._values = array("Q", bytes(8 * slots))

    def _slot(self, short: int) -> int:
        """Return the slot that holds the key, or the free one where it belongs."""
        mask, keys, values = self._mask, self._keys, self._values
        slot = short & mask
        while values[slot] and keys[slot] != short:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        keys, values = self._keys, self._values
        self._allocate(2 * (self._mask + 1))
        for short, value in zip(keys, values, strict=True):
            if value:
                slot = self._slot(short)
                self._keys[slot] = short
                self._values[slot] = value
