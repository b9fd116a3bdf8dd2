"""What the blocks of a chain hold, drawn from their heights."""

from __future__ import annotations

from indexer.devnode import blocks
from indexer.devnode.blocks import EMPTY_BODY, EMPTY_ROOTS, Body, Env, Roots
from indexer.devnode.config import DevnodeConfig
from indexer.devnode.forks import Forks
from indexer.devnode.profiles import profile_of
from indexer.devnode.world import World


class Contents:
    """Everything about the blocks that no other block decides."""

    def __init__(self, config: DevnodeConfig, forks: Forks) -> None:
        self._config = config
        self._forks = forks
        self._profile = profile_of(
            config.profile, config.huge_height, config.huge_bytes
        )
        self._world = World(config.seed, config.profile, config.chain_id)

    @property
    def is_heavy(self) -> bool:
        """Return whether making a block twice costs more than keeping it."""
        return self._profile.heavy

    def is_empty(self, height: int) -> bool:
        """Return whether the block surely holds nothing, without making it."""
        empty = height == 0 or self._profile.is_empty(height)
        return empty and height not in self._forks.moved

    def environment(self, height: int) -> Env:
        """Return what the block at a height has before anything is put into it."""
        salt = self._forks.salt(height)
        timestamp = self._config.genesis_timestamp + self._config.slot_seconds * height
        env = blocks.environment(self._world, salt, height, timestamp)
        moved = self._forks.moved.get(height)
        return env if moved is None else env._replace(base_fee=moved.base_fee)

    def body(self, env: Env) -> Body:
        """Return what the block holds."""
        body = self._profile.body(self._world, env, self._forks.salt(env.height))
        moved = self._forks.moved.get(env.height)
        if moved is None:
            return body
        return Body(moved.transactions, moved.receipts, body.withdrawals)

    def whole(self, env: Env) -> tuple[Body, Roots]:
        """Return what the block holds, and what its header commits to of that."""
        if self.is_empty(env.height):
            return EMPTY_BODY, EMPTY_ROOTS
        body = self.body(env)
        return body, blocks.roots(body, self._world.chain_id)
