"""How many blocks to fetch and write at a time.

Sized by bytes, not by blocks: a chunk of dense blocks and one of empty blocks should
take about the same memory and the same time in the database.
"""

from __future__ import annotations

# Of JSON. Rows of a chunk take about twice that in Python while they are encoded, and
# PostgreSQL takes 2 MB of it in well under a second with all indexes.
_TARGET_BYTES = 2 * 1024 * 1024
_FIRST = 20
_LARGEST = 2_000
# A dense stretch after a sparse one must not meet a chunk sized for the sparse one
# that is too far off: growth is bounded, shrinking is not.
_GROWTH = 4


class ChunkSizer:
    """Learns blocks a chunk from the bytes that chunks turned out to have."""

    def __init__(self, fixed: int | None = None) -> None:
        """``fixed`` is ``--chunk-blocks``: then nothing is learned."""
        self._fixed = fixed
        self._size = fixed if fixed is not None else _FIRST

    @property
    def size(self) -> int:
        """How many blocks the next chunk should have; at least one."""
        return self._size

    def learn(self, blocks: int, raw_bytes: int) -> None:
        """Take in how many bytes of JSON a chunk of blocks had."""
        if self._fixed is not None or blocks < 1:
            return
        fitting = int(_TARGET_BYTES / max(1.0, raw_bytes / blocks))
        self._size = max(1, min(fitting, self._size * _GROWTH, _LARGEST))
