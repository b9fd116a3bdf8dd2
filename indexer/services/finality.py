"""Which heights nothing replaces any more, asked of the node now and then."""

from __future__ import annotations

import time
from contextlib import suppress

from indexer.chain.endpoints import Endpoints
from indexer.chain.tip import finalized_number
from indexer.errors import IndexerError

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
