"""What a node needs of a chain, wherever that comes from."""

from __future__ import annotations

from math import inf
from typing import Protocol


class ReadableChain(Protocol):
    """A canonical chain with a head; every method may be called from any thread.

    Hashes are 32 bytes, JSON is bytes. Blocks are asked for only at heights that
    :meth:`holds` and that are made.
    """

    @property
    def chain_id(self) -> int:
        """Return the chain id."""

    @property
    def head(self) -> int:
        """Return the height of the latest block."""

    @property
    def safe(self) -> int | None:
        """Return the safe height, ``None`` where the node knows none."""

    @property
    def finalized(self) -> int | None:
        """Return the finalized height, ``None`` where the node knows none."""

    @property
    def generated(self) -> int:
        """Return how many heights, from 0, are made already."""

    def is_made(self, height: int) -> bool:
        """Return whether the block at a height is made already."""

    def generate(self, height: int, *, seconds: float = inf) -> None:
        """Make the whole chain up to a height, or what one gets in ``seconds``."""

    def reach(self, height: int, *, seconds: float = inf) -> None:
        """Make the block at a height, or what one gets of it in ``seconds``."""

    def holds(self, height: int) -> bool:
        """Return whether there is a block to serve at a height."""

    def is_empty(self, height: int) -> bool:
        """Return whether the block surely holds no transactions."""

    def hash_at(self, height: int) -> bytes:
        """Return the hash of the block at a height."""

    def height_of(self, block_hash: bytes) -> int | None:
        """Return the height of a served block by its hash."""

    def place_of(self, transaction_hash: bytes) -> tuple[int, int] | None:
        """Return where a transaction may stand: its height and index."""

    def block_json(self, height: int, full: bool) -> bytes:
        """Return a block, with whole transactions or their hashes."""

    def receipts_json(self, height: int) -> bytes:
        """Return the list of a block's receipts."""


class ServedChain(ReadableChain, Protocol):
    """A chain that can be steered as well.

    Raises:
        ValueError: of ``fork``, ``reorg`` and ``alternative``, where this chain
            cannot do that.
    """

    def mine(self, count: int) -> None:
        """Move the head up."""

    def set_head(self, height: int) -> None:
        """Put the head anywhere; what is above is hidden."""

    def fork(self, at_height: int, salt: int) -> None:
        """Give every height above ``at_height`` other blocks."""

    def reorg(self, depth: int, *, moved: bool = False) -> int:
        """Replace the last ``depth`` blocks and add one; return the fork height."""

    def alternative(
        self, *, fork: tuple[int, int] | None = None, seed: int = 0
    ) -> ServedChain:
        """Return a chain that parts from this one at a fork, or at genesis."""

    def close(self) -> None:
        """Give back what it holds."""
