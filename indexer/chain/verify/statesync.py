"""Polygon's state-sync transaction, which stands in a block but in none of its roots.

Until blocks began to hold it as a type of its own, nodes have appended it to a
block's transactions, and its receipt to the receipts, under a hash made of the
block's number and hash.
"""

from __future__ import annotations

from typing import Final, Protocol

from indexer.chain.verify.keccak import keccak

_PREFIX: Final = b"matic-bor-receipt-"


class Named(Protocol):
    """Whatever has a block's number and hash."""

    @property
    def number(self) -> int:
        """Return the height."""

    @property
    def hash(self) -> bytes:
        """Return the hash of the block."""


def is_state_sync(transaction_hash: bytes, block: Named) -> bool:
    """Tell whether a transaction is the one that the node has appended."""
    made = _PREFIX + block.number.to_bytes(8, "big") + block.hash
    return transaction_hash == keccak(made)
