"""Which heights nothing replaces any more, asked of the node now and then."""

from __future__ import annotations

import time
from contextlib import suppress

from indexer.chain.endpoints import Endpoints
from indexer.chain.tip import finalized_number
from indexer.errors import IndexerError
from indexer.ranges import BlockRange

# The finalized height moves by an epoch (6.4 minutes on mainnet); knowing it late only
# means taking row locks that would not have been needed.
_REFRESH_SECONDS = 15.0


class Finality:
    """The finalized height as last heard."""

    def __init__(self, endpoints: Endpoints, depth: int | None) -> None:
        """``depth`` stands in where the node has no ``finalized`` tag."""
        self._endpoints = endpoints
        self._depth = depth
        self._height: int | None = None
        self._asked_at = float("-inf")

    async def height(self) -> int | None:
        """Return the finalized height, None while it is not known."""
        if time.monotonic() - self._asked_at >= _REFRESH_SECONDS:
            self._asked_at = time.monotonic()
            # Not knowing is safe; the caller's own requests report an outage.
            with suppress(IndexerError):
                self._height = await finalized_number(self._endpoints, self._depth)
        return self._height

    async def is_final(self, number: int) -> bool:
        """Tell whether a height can no longer change."""
        height = await self.height()
        return height is not None and number <= height


async def require_finalized(endpoints: Endpoints, depth: int | None) -> int:
    """Return the finalized height.

    Raises IndexerError where the node has none and no depth stands in for it.
    """
    height = await finalized_number(endpoints, depth)
    if height is None:
        raise IndexerError(
            "the node has no finalized block; say with --finality-depth N how many "
            "blocks below the head are final"
        )
    return height


async def clamp_to_final(
    endpoints: Endpoints, *, first: int, end: int | None, depth: int | None
) -> tuple[BlockRange, list[str]]:
    """Return the final heights of ``first`` up to ``end`` (not covered), and notes.

    ``end`` None means all final ones. Raises IndexerError where there are none.
    """
    finalized = await require_finalized(endpoints, depth)
    notes = []
    if end is not None and end > finalized + 1:
        notes.append(
            f"clamped to {finalized + 1}: the node's finalized height is {finalized}; "
            "the follower or a later plan covers the rest"
        )
    if first > finalized:
        raise IndexerError(
            f"nothing was queued: the node's finalized height is {finalized}, below "
            f"--from {first}"
        )
    last = finalized if end is None else min(end - 1, finalized)
    return BlockRange(first, last), notes
