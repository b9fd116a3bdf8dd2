"""The end of a chain, and what a node says of its finality."""

from __future__ import annotations


class Head:
    """A chain id and a head that the safe and the finalized block trail.

    ``finality_depth`` is how far, ``None`` for a node that knows no such tags.
    """

    def __init__(
        self, *, chain_id: int, height: int, finality_depth: int | None
    ) -> None:
        self._chain_id = chain_id
        self._head = height
        self._finality_depth = finality_depth

    @property
    def chain_id(self) -> int:
        """Return the chain id."""
        return self._chain_id

    @property
    def head(self) -> int:
        """Return the height of the latest block."""
        return self._head

    @property
    def finalized(self) -> int | None:
        """Return the finalized height, ``None`` where the node knows none."""
        depth = self._finality_depth
        return None if depth is None else max(0, self._head - depth)

    @property
    def safe(self) -> int | None:
        """Return the safe height: half as far behind the head, as on mainnet."""
        depth = self._finality_depth
        return None if depth is None else max(0, self._head - depth // 2)
