"""What a node was asked, and what that came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from indexer.devnode import messages
from indexer.devnode.messages import Calls


class Counters:
    """What a node was asked and how much it sent, since its start."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin to count anew."""
        self.methods: Counter[str] = Counter()
        self.requests = 0
        self.batches = 0
        self.bytes_in = 0
        self.bytes_out = 0

    def asked(self, calls: Calls) -> None:
        """Count the calls of a request, also of one that will be refused."""
        self.batches += isinstance(calls, Sequence)
        self.methods.update(messages.methods(calls))

    def shown(self) -> dict[str, Any]:
        """Return the counters as JSON has them."""
        return {
            "methods": dict(self.methods),
            "requests": self.requests,
            "batches": self.batches,
            "bytesIn": self.bytes_in,
            "bytesOut": self.bytes_out,
        }
