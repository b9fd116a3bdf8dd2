"""What a node is to be."""

from __future__ import annotations

from dataclasses import dataclass

from indexer.devnode.faults.fault import Fault
from indexer.devnode.faults.kinds import completed
from indexer.devnode.faults.schedule import FaultSchedule
from indexer.devnode.profiles import PROFILES
from indexer.errors import ConfigError

# 2024-01-01T00:00:00Z: fixed, because a chain must not depend on when it is run.
_GENESIS = 1_704_067_200
_CACHE_BYTES = 1 << 30


@dataclass(frozen=True)
class DevnodeConfig:
    """What a node serves and how; everything but ``host`` and ``port`` is chain.

    ``port`` 0 takes a free one. ``height`` is where the head starts; it rises by
    one each ``block_time`` seconds, with 0 only when told to. ``finality_depth``
    is how far the finalized tag trails the head, ``None`` for a node that knows
    no such tags. Timestamps count ``slot_seconds`` a block from
    ``genesis_timestamp``. ``forks`` are (height, salt): above each height the
    blocks are those of that salt. The blocks below ``prepare`` are made and
    rendered before the node is ready; ``cache_bytes`` bounds how much of rendered
    blocks is kept, on disk. The block at ``huge_height`` is about ``huge_bytes`` of
    JSON. ``faults`` are in force from the start, ``schedule`` draws more.

    Raises:
        ConfigError: a value that no chain can have.
    """

    host: str = "127.0.0.1"
    port: int = 0
    profile: str = "mixed"
    seed: int = 0
    chain_id: int = 1337
    height: int = 0
    block_time: float = 0.0
    finality_depth: int | None = 64
    genesis_timestamp: int = _GENESIS
    slot_seconds: int = 12
    log_timestamps: bool = False
    forks: tuple[tuple[int, int], ...] = ()
    prepare: int = 0
    cache_bytes: int = _CACHE_BYTES
    huge_height: int | None = None
    huge_bytes: int = 50_000_000
    faults: tuple[Fault, ...] = ()
    schedule: FaultSchedule | None = None

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            known = ", ".join(PROFILES)
            raise ConfigError(f"there is no profile {self.profile!r}, only {known}")
        for name in ("height", "prepare", "genesis_timestamp", "block_time"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative")
        if self.chain_id < 1:
            raise ConfigError("the chain id must be at least 1")
        if self.finality_depth is not None and self.finality_depth < 0:
            raise ConfigError("the finality depth must not be negative")
        if self.huge_height is not None and self.huge_height < 1:
            raise ConfigError("the huge block cannot be the first one")
        try:
            for fault in self.faults:
                completed(fault)
            if self.schedule is not None:
                self.schedule.faults()
        except ValueError as error:
            raise ConfigError(str(error)) from error
