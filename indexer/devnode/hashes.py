"""The hashes of a chain, made in pieces: from genesis on, or from a known hash on.

A hash takes all those below it, which is a minute's work for two millions. So some
hashes of the chains that are served by default are kept in ``anchors``: what is far up
is made from the nearest one, and what lies between when it is asked for.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from indexer.devnode.config import DevnodeConfig

# Heights a piece; of the last block of each the hash is kept in a file.
PIECE: Final = 20_000
_DEFAULT: Final = DevnodeConfig()
_NO_PARENT: Final = bytes(32)


@cache
def _anchors(profile: str) -> tuple[bytes, ...]:
    path = Path(__file__).with_name("anchors") / f"{profile}.txt"
    if not path.exists():
        return ()
    return tuple(map(bytes.fromhex, path.read_text(encoding="ascii").split()))


def anchors_of(config: DevnodeConfig) -> tuple[bytes, ...]:
    """Return the known hashes at the end of each piece; none of most chains."""
    for name in ("seed", "chain_id", "genesis_timestamp", "slot_seconds"):
        if getattr(config, name) != getattr(_DEFAULT, name):
            return ()
    return _anchors(config.profile) if config.huge_height is None else ()


class Hashes:
    """The hashes that are made; all are those of the canonical chain."""

    def __init__(self, anchors: tuple[bytes, ...]) -> None:
        self._anchors = anchors
        self._pieces: dict[int, bytearray] = {}
        self._whole = 0

    @property
    def generated(self) -> int:
        """Return how many heights, from 0, are made."""
        while len(self._pieces.get(self._whole, b"")) == 32 * PIECE:
            self._whole += 1
        return self._whole * PIECE + len(self._pieces.get(self._whole, b"")) // 32

    def has(self, height: int) -> bool:
        """Return whether the hash at a height is made."""
        piece, place = divmod(height, PIECE)
        return 32 * place < len(self._pieces.get(piece, b""))

    def at(self, height: int) -> bytes:
        """Return the hash at a height that is made; of none below genesis."""
        if height < 0:
            return _NO_PARENT
        piece, place = divmod(height, PIECE)
        if self.has(height):
            return bytes(self._pieces[piece][32 * place : 32 * place + 32])
        return self._anchors[piece]

    def start(self, height: int) -> int:
        """Return the height to make next on the way to one that is not made yet."""
        piece = height // PIECE
        while self._made(piece) == 0 and not self._has_parent(piece):
            piece -= 1
        return piece * PIECE + self._made(piece)

    def put(self, height: int, block_hash: bytes) -> None:
        """Keep the hash at the height that :meth:`start` or ``generated`` gave."""
        self._pieces.setdefault(height // PIECE, bytearray()).extend(block_hash)

    def drop_above(self, height: int) -> None:
        """Forget what is above a height: other blocks are there from now on."""
        piece, place = divmod(height, PIECE)
        self._anchors = self._anchors[: (height + 1) // PIECE]
        for gone in [each for each in self._pieces if each > piece]:
            del self._pieces[gone]
        if piece in self._pieces:
            del self._pieces[piece][32 * (place + 1) :]
        self._whole = min(self._whole, piece)

    def _made(self, piece: int) -> int:
        return len(self._pieces.get(piece, b"")) // 32

    def _has_parent(self, piece: int) -> bool:
        below = piece - 1
        return piece == 0 or below < len(self._anchors) or self._made(below) == PIECE
