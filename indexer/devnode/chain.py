"""A chain that is a function of (seed, profile, chain id), made as it is asked for.

Only hashes are kept: 32 bytes a block, and an index from hashes to heights and
places. What a block holds is drawn again from its height when it is asked for, or
read from the cache of rendered blocks.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from math import inf
from time import monotonic

from indexer.devnode import blocks
from indexer.devnode.blocks import Body, Env, Roots
from indexer.devnode.cache import RenderCache
from indexer.devnode.config import DevnodeConfig
from indexer.devnode.contents import Contents
from indexer.devnode.forks import Forks, deal
from indexer.devnode.hashes import PIECE, Hashes, anchors_of
from indexer.devnode.hashindex import HashIndex
from indexer.devnode.hashing import keccak
from indexer.devnode.head import Head
from indexer.devnode.rendering import Rendered, render, render_empty

# A block's place in the index of transactions: height, then 16 bits of index.
_INDEX_BITS = 16


class Chain(Head):
    """The canonical chain of a node and its head.

    Heights are made on demand: asking for a block makes those below it first, as far
    down as a hash is known. Every method may be called from any thread.
    """

    def __init__(self, config: DevnodeConfig) -> None:
        super().__init__(
            chain_id=config.chain_id,
            height=config.height,
            finality_depth=config.finality_depth,
        )
        self._config = config
        self._hashes = Hashes(anchors_of(config))
        self._heights = HashIndex()
        self._places = HashIndex()
        self._cache = RenderCache(config.cache_bytes)
        self._forks = Forks()
        self._contents = Contents(config, self._forks)
        self._lock = threading.RLock()
        for at_height, salt in config.forks:
            self.fork(at_height, salt)

    @property
    def generated(self) -> int:
        """Return how many heights, from 0, are made."""
        return self._hashes.generated

    def is_made(self, height: int) -> bool:
        """Return whether the block at a height is made."""
        return self._hashes.has(height)

    def holds(self, height: int) -> bool:
        """Return whether there is a block to serve at a height."""
        return height <= self._head

    def is_empty(self, height: int) -> bool:
        """Return whether the block surely holds nothing, without making it."""
        return self._contents.is_empty(height)

    def generate(self, height: int, *, seconds: float = inf) -> None:
        """Make the whole chain up to a height, or what one gets in ``seconds``."""
        with self._lock:
            deadline = monotonic() + seconds
            while self.generated <= height and monotonic() < deadline:
                piece = self.generated // PIECE * PIECE + PIECE - 1
                self._make_up_to(self.generated, min(height, piece), deadline)

    def reach(self, height: int, *, seconds: float = inf) -> None:
        """Make the block at a height, or what one gets of it in ``seconds``."""
        with self._lock:
            self._make_up_to(self._hashes.start(height), height, monotonic() + seconds)

    def hash_at(self, height: int) -> bytes:
        """Return the hash of the block at a height, also above the head."""
        with self._lock:
            if not self.is_made(height):
                self.reach(height)
            return self._hashes.at(height)

    def height_of(self, block_hash: bytes) -> int | None:
        """Return the height of a canonical block up to the head, by its hash."""
        with self._lock:
            height = self._heights.get(block_hash)
            if height is None or height > self._head or not self.is_made(height):
                return None
            return height if self.hash_at(height) == block_hash else None

    def place_of(self, transaction_hash: bytes) -> tuple[int, int] | None:
        """Return where a transaction may stand: its height and index.

        The caller compares the hash: the block there may have been replaced.
        """
        with self._lock:
            place = self._places.get(transaction_hash)
            if place is None:
                return None
            height = place >> _INDEX_BITS
            if height > self._head or self.is_empty(height):
                return None
            return height, place & ((1 << _INDEX_BITS) - 1)

    def block_json(self, height: int, full: bool) -> bytes:
        """Return the block at a height, with whole transactions or their hashes."""
        with self._lock:
            kept = self._cache.block(height, full)
            if kept is not None:
                return kept
            if self.is_empty(height):
                return self._empty_json(height)
            return self._make(height).block(full)

    def receipts_json(self, height: int) -> bytes:
        """Return the list of receipts of the block at a height."""
        if self.is_empty(height):
            return b"[]"
        with self._lock:
            kept = self._cache.receipts(height)
            return self._make(height).receipts if kept is None else kept

    def fork(self, at_height: int, salt: int) -> None:
        """Give every height above ``at_height`` other blocks.

        The same salt always gives the same blocks, so two nodes can be put on
        one fork.
        """
        with self._lock:
            self._forks.begin(at_height, salt)
            self._hashes.drop_above(at_height)
            self._cache.drop_above(at_height)

    def reorg(self, depth: int, *, moved: bool = False) -> int:
        """Replace the last ``depth`` blocks by others and add one on top.

        With ``moved`` these hold the transactions of the old ones, reordered and
        mostly at other heights. Returns the height below the first one replaced.
        """
        with self._lock:
            at_height = self._head - depth
            if depth < 1 or at_height < 0:
                raise ValueError(f"a chain of height {self._head} has no such depth")
            heights = range(at_height + 1, self._head + 2)
            made = self._contents
            envs = map(made.environment, heights[:-1] if moved else ())
            old = [(made.body(env), env.base_fee) for env in envs]
            self.fork(at_height, self._forks.new_salt)
            self._head += 1
            if moved:
                dealt = zip(heights, deal(old, len(heights)), strict=True)
                self._forks.moved.update(dealt)
                # So that the index of transactions knows where they went.
                self.reach(self._head)
            return at_height

    def alternative(
        self, *, fork: tuple[int, int] | None = None, seed: int = 0
    ) -> Chain:
        """Return another chain: of a seed so much higher, or parted by a fork.

        What moved in a reorganisation stays where it was there.
        """
        forks = (*self._forks.pairs(), *([fork] if fork else []))
        other = replace(self._config, seed=self._config.seed + seed, forks=forks)
        return Chain(replace(other, height=self._head, prepare=0))

    def mine(self, count: int) -> None:
        """Move the head up."""
        with self._lock:
            self._head += count

    def set_head(self, height: int) -> None:
        """Put the head anywhere; blocks above it are hidden, not changed."""
        with self._lock:
            self._head = height

    def close(self) -> None:
        """Give the cache back."""
        with self._lock:
            self._cache.close()

    def _empty_json(self, height: int) -> bytes:
        own = self.hash_at(height)
        env = self._contents.environment(height)
        return render_empty(own, self._hashes.at(height - 1), env)

    def _make(self, height: int) -> Rendered:
        own = self.hash_at(height)
        env = self._contents.environment(height)
        body, roots = self._contents.whole(env)
        return self._render(own, self._hashes.at(height - 1), env, body, roots)

    def _make_up_to(self, first: int, height: int, deadline: float) -> None:
        parent = self._hashes.at(first - 1)
        for new in range(first, height + 1):
            parent = self._append(new, parent)
            if monotonic() > deadline:
                break

    def _append(self, height: int, parent: bytes) -> bytes:
        env = self._contents.environment(height)
        empty = self.is_empty(height)
        body, roots = self._contents.whole(env)
        own = keccak(blocks.header(parent, env, roots))
        self._hashes.put(height, own)
        self._heights.put(own, height)
        for index, transaction_hash in enumerate(roots.transaction_hashes):
            self._places.put(transaction_hash, height << _INDEX_BITS | index)
        if height < self._config.prepare or (self._contents.is_heavy and not empty):
            self._render(own, parent, env, body, roots)
        return own

    def _render(
        self, own: bytes, parent: bytes, env: Env, body: Body, roots: Roots
    ) -> Rendered:
        rendered = render(
            own,
            parent,
            env,
            body,
            roots,
            chain_id=self._config.chain_id,
            log_timestamps=self._config.log_timestamps,
        )
        self._cache.put(env.height, rendered)
        return rendered
