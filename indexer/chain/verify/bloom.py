"""The bloom of logs: three bits of 2048 for each address and topic.

Source: yellow paper, section 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from indexer.chain.verify.keccak import keccak
from indexer.rows import LogRow

EMPTY_BLOOM: Final = bytes(256)

# About 500 bytes each. Contracts, event signatures and holders recur from block to
# block; what does not is forgotten with the rest.
_KEPT: Final = 16_384


class _Masks(dict[bytes | None, int]):
    """The bits that an address or topic sets, as a number."""

    def __missing__(self, value: bytes) -> int:
        digest = keccak(value)
        mask = (
            1 << ((digest[0] << 8 | digest[1]) & 2047)
            | 1 << ((digest[2] << 8 | digest[3]) & 2047)
            | 1 << ((digest[4] << 8 | digest[5]) & 2047)
        )
        if len(self) >= _KEPT:
            self.clear()
            self[None] = 0
        self[value] = mask
        return mask


# An absent topic sets nothing.
_MASKS: Final = _Masks({None: 0})


def log_masks(logs: Iterable[LogRow]) -> list[int]:
    """Return the bits each log sets."""
    masks = _MASKS
    found = []
    for _, _, _, _, address, topic0, topic1, topic2, topic3, _, _ in logs:
        mask = masks[address] | masks[topic0]
        if topic1 is not None:
            mask |= masks[topic1]
            if topic2 is not None:
                mask |= masks[topic2] | masks[topic3]
        found.append(mask)
    return found


def bloom(mask: int) -> bytes:
    """Return bits as the 256 bytes a header has."""
    return mask.to_bytes(256, "big")
