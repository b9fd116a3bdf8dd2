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
from indexer.devnode.blocks import EMPTY_BODY, EMPTY_ROOTS, Body, Env, Roots
from indexer.devnode.cache import RenderCache
from indexer.devnode.config import DevnodeConfig
from indexer.devnode.forks import Forks, deal
from indexer.devnode.hashindex import HashIndex
from indexer.devnode.hashing import keccak
from indexer.devnode.head import Head
from indexer.devnode.profiles import profile_of
from indexer.devnode.rendering import Rendered, render, render_empty
from indexer.devnode.world import World

# A block's place in the index of transactions: height, then 16 bits of index.
_INDEX_BITS = 16


class Chain(Head):
    """The canonical chain of a node and its head.

    Heights are made in order and on demand: asking for a block makes all below
    it first. ``generated`` is how many are made. Every method may be called from
    any thread.
    """

    def __init__(self, config: DevnodeConfig) -> None:
        super().__init__(
            chain_id=config.chain_id,
            height=config.height,
            finality_depth=config.finality_depth,
        )
        self._config = config
        self._profile = profile_of(
            config.profile, config.huge_height, config.huge_bytes
        )
        self._world = World(config.seed, config.profile, config.chain_id)
        self._hashes = bytearray()
        self._heights = HashIndex()
        self._places = HashIndex()
        self._cache = RenderCache(config.cache_bytes)
        self._forks = Forks()
        self._lock = threading.RLock()
        for at_height, salt in config.forks:
            self.fork(at_height, salt)

    @property
    def generated(self) -> int:
        """Return how many heights, from 0, are made."""
        return len(self._hashes) // 32

    def holds(self, height: int) -> bool:
        """Return whether there is a block to serve at a height."""
        return height <= self._head

    def is_empty(self, height: int) -> bool:
        """Return whether the block surely holds nothing, without making it."""
        empty = height == 0 or self._profile.is_empty(height)
        return empty and height not in self._forks.moved

    def generate(self, height: int, *, seconds: float = inf) -> None:
        """Make the chain up to a height, or as far as one gets in ``seconds``."""
        with self._lock:
            deadline = monotonic() + seconds
            parent = self.hash_at(self.generated - 1) if self.generated else bytes(32)
            for new in range(self.generated, height + 1):
                parent = self._append(new, parent)
                if monotonic() > deadline:
                    break

    def hash_at(self, height: int) -> bytes:
        """Return the hash of the block at a height, also above the head."""
        with self._lock:
            if height >= self.generated:
                self.generate(height)
            return bytes(self._hashes[32 * height : 32 * height + 32])

    def height_of(self, block_hash: bytes) -> int | None:
        """Return the height of a canonical block up to the head, by its hash."""
        with self._lock:
            height = self._heights.get(block_hash)
            if height is None or height > self._head or height >= self.generated:
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
            del self._hashes[32 * (at_height + 1) :]
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
            envs = map(self._environment, heights[:-1] if moved else ())
            old = [(self._body(env), env.base_fee) for env in envs]
            self.fork(at_height, self._forks.new_salt)
            self._head += 1
            if moved:
                dealt = zip(heights, deal(old, len(heights)), strict=True)
                self._forks.moved.update(dealt)
                # So that the index of transactions knows where they went.
                self.generate(self._head)
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

    def _environment(self, height: int) -> Env:
        salt = self._forks.salt(height)
        timestamp = self._config.genesis_timestamp + self._config.slot_seconds * height
        env = blocks.environment(self._world, salt, height, timestamp)
        moved = self._forks.moved.get(height)
        return env if moved is None else env._replace(base_fee=moved.base_fee)

    def _body(self, env: Env) -> Body:
        body = self._profile.body(self._world, env, self._forks.salt(env.height))
        moved = self._forks.moved.get(env.height)
        if moved is None:
            return body
        return Body(moved.transactions, moved.receipts, body.withdrawals)

    def _contents(self, env: Env, *, empty: bool) -> tuple[Body, Roots]:
        if empty:
            return EMPTY_BODY, EMPTY_ROOTS
        body = self._body(env)
        return body, blocks.roots(body, self._world.chain_id)

    def _empty_json(self, height: int) -> bytes:
        if height >= self.generated:
            self.generate(height)
        at = 32 * height
        hashes = self._hashes
        parent = hashes[at - 32 : at] if height else bytes(32)
        return render_empty(hashes[at : at + 32], parent, self._environment(height))

    def _make(self, height: int) -> Rendered:
        own = self.hash_at(height)
        parent = self.hash_at(height - 1)
        env = self._environment(height)
        body, roots = self._contents(env, empty=False)
        return self._render(own, parent, env, body, roots)

    def _append(self, height: int, parent: bytes) -> bytes:
        env = self._environment(height)
        empty = self.is_empty(height)
        body, roots = self._contents(env, empty=empty)
        own = keccak(blocks.header(parent, env, roots))
        self._hashes += own
        self._heights.put(own, height)
        for index, transaction_hash in enumerate(roots.transaction_hashes):
            self._places.put(transaction_hash, height << _INDEX_BITS | index)
        if height < self._config.prepare or (self._profile.heavy and not empty):
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
            chain_id=self._world.chain_id,
            log_timestamps=self._config.log_timestamps,
        )
        self._cache.put(env.height, rendered)
        return rendered
