"""A chain of blocks that come from elsewhere: recorded, decoded, made by hand."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, NamedTuple

import msgspec

from indexer.devnode.head import Head
from indexer.devnode.served import ServedChain

Json = Mapping[str, Any]


class _Block(NamedTuple):
    own: bytes
    full: bytes
    hashes: bytes
    receipts: bytes
    transactions: tuple[bytes, ...]


class RecordedChain(Head):
    """Serves blocks as they are, each a JSON object with whole transactions.

    With each block come its receipts, a list as ``eth_getBlockReceipts`` gives it.
    Heights without a block are null. Nothing is checked, so that any lie can be
    served; only hashes and numbers must be there. The head is the highest block.
    Every method may be called from any thread.
    """

    def __init__(
        self,
        blocks: Iterable[tuple[Json, Iterable[Json]]],
        *,
        chain_id: int,
        finality_depth: int | None = 64,
    ) -> None:
        super().__init__(chain_id=chain_id, height=0, finality_depth=finality_depth)
        self._lock = threading.RLock()
        self._blocks: dict[int, _Block] = {}
        self._heights: dict[bytes, int] = {}
        self._places: dict[bytes, tuple[int, int]] = {}
        self.put(blocks)

    def put(self, blocks: Iterable[tuple[Json, Iterable[Json]]]) -> None:
        """Put blocks in place of all from the lowest of them on; the last is the head.

        So a reorganisation is served, and with blocks on top, growth.
        """
        made = {
            int(block["number"], 16): _block(block, receipts)
            for block, receipts in blocks
        }
        with self._lock:
            lowest = min(made, default=sys.maxsize)
            for height in [kept for kept in self._blocks if kept >= lowest]:
                del self._blocks[height]
            self._blocks.update(made)
            for height, block in made.items():
                self._heights[block.own] = height
                for index, item in enumerate(block.transactions):
                    self._places[item] = (height, index)
            self._head = max(self._blocks, default=0)

    @property
    def generated(self) -> int:
        """Return more than there can be: nothing is left to be made."""
        return sys.maxsize

    def is_made(self, height: int) -> bool:
        """Return True: nothing is left to be made."""
        return True

    def generate(self, height: int, *, seconds: float = inf) -> None:
        """Make nothing: what is not recorded is not there."""

    def reach(self, height: int, *, seconds: float = inf) -> None:
        """Make nothing."""

    def holds(self, height: int) -> bool:
        """Return whether there is a block to serve at a height."""
        return height <= self._head and height in self._blocks

    def is_empty(self, height: int) -> bool:
        """Return whether the block holds no transactions."""
        return not self._blocks[height].transactions

    def hash_at(self, height: int) -> bytes:
        """Return the hash of the block at a height."""
        return self._blocks[height].own

    def height_of(self, block_hash: bytes) -> int | None:
        """Return the height of a canonical block up to the head, by its hash."""
        with self._lock:
            height = self._heights.get(block_hash)
            if height is None or not self.holds(height):
                return None
            return height if self.hash_at(height) == block_hash else None

    def place_of(self, transaction_hash: bytes) -> tuple[int, int] | None:
        """Return where a transaction may stand: its height and index."""
        with self._lock:
            place = self._places.get(transaction_hash)
            return place if place is not None and self.holds(place[0]) else None

    def block_json(self, height: int, full: bool) -> bytes:
        """Return the block at a height, with whole transactions or their hashes."""
        block = self._blocks[height]
        return block.full if full else block.hashes

    def receipts_json(self, height: int) -> bytes:
        """Return the list of receipts of the block at a height."""
        return self._blocks[height].receipts

    def mine(self, count: int) -> None:
        """Move the head up, to a block that was hidden by :meth:`set_head`.

        Raises:
            ValueError: there is no such block.
        """
        self.set_head(self._head + count)

    def set_head(self, height: int) -> None:
        """Put the head at a recorded block; those above it are hidden.

        Raises:
            ValueError: there is no such block.
        """
        if height not in self._blocks:
            raise ValueError(f"no block {height} was recorded")
        self._head = height

    def fork(self, at_height: int, salt: int) -> None:
        """Refuse: other blocks are given by :meth:`put`."""
        raise ValueError("a recorded chain has no other blocks")

    def reorg(self, depth: int, *, moved: bool = False) -> int:
        """Refuse: other blocks are given by :meth:`put`."""
        raise ValueError("a recorded chain has no other blocks")

    def alternative(
        self, *, fork: tuple[int, int] | None = None, seed: int = 0
    ) -> ServedChain:
        """Refuse: a recorded chain knows no other."""
        raise ValueError("a recorded chain has no other blocks")

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _block(block: Json, receipts: Iterable[Json]) -> _Block:
    hashes = [item["hash"] for item in block["transactions"]]
    encode = msgspec.json.encode
    return _Block(
        bytes.fromhex(block["hash"][2:]),
        encode(block),
        encode({**block, "transactions": hashes}),
        encode(list(receipts)),
        tuple([bytes.fromhex(item[2:]) for item in hashes]),
    )
