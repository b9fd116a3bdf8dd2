"""From a hash to where it stands, for millions of hashes."""

from __future__ import annotations

from array import array


class HashIndex:
    """An open-addressing table from hashes to numbers, 24 to 48 bytes an entry.

    A dict of two million 32-byte keys takes 340 MB; this takes 64. Only the
    first eight bytes of a hash are kept, so a hit is a candidate: the caller
    compares the whole hash. Entries are never removed, a later one for the same
    hash replaces the earlier.
    """

    def __init__(self) -> None:
        self._size = 0
        self._allocate(1 << 12)

    def __len__(self) -> int:
        return self._size

    def put(self, key: bytes, value: int) -> None:
        """Remember where a hash stands; ``value`` is below 2^64 - 1."""
        short = int.from_bytes(key[:8], "big")
        slot = self._slot(short)
        if self._values[slot] == 0:
            self._size += 1
        self._keys[slot] = short
        self._values[slot] = value + 1
        if 3 * self._size > 2 * (self._mask + 1):
            self._grow()

    def get(self, key: bytes) -> int | None:
        """Return where a hash may stand, ``None`` where it surely does not."""
        found = self._values[self._slot(int.from_bytes(key[:8], "big"))]
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
