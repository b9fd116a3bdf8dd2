"""A block so large that its JSON takes tens of megabytes."""

from __future__ import annotations

from hashlib import shake_128

from indexer.devnode.body import BodyBuilder

# Nodes take no larger transaction into their pools.
_CALLDATA = 128 * 1024
_LOGS = 20
# What a transaction takes in JSON beside its calldata, about.
_OVERHEAD = 700


def fill_huge(block: BodyBuilder, json_bytes: int) -> None:
    """Put in transactions full of calldata until the block's JSON is about so big.

    Each emits some logs. The calldata costs no gas, or no limit would allow it.
    """
    count = max(1, round(json_bytes / (2 * _CALLDATA + _OVERHEAD)))
    size = max(1, min(_CALLDATA, json_bytes // 2))
    # One piece of chance for all, as a draw would squeeze its sponge anew for each.
    chance = shake_128(block.draw.take(32)).digest(count + size)
    for at in range(count):
        logs = tuple([block.log(3, 32) for _ in range(_LOGS)])
        to = block.draw.choice(block.world.contracts)
        block.add(2, to, chance[at : at + size], logs, data_gas=0)
    block.withdraw()
