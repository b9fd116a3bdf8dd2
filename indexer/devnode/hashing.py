"""Keccak-256 and the bits it sets in a logs bloom."""

from __future__ import annotations

from sha3 import keccak_256  # type: ignore[import-untyped]


def keccak(data: bytes) -> bytes:
    """Return the 32 bytes of Keccak-256 (not the later SHA3-256)."""
    digest: bytes = keccak_256(data).digest()
    return digest


def bloom_mask(value: bytes) -> int:
    """Return the 2048-bit bloom with the three bits of an address or topic set.

    Source: yellow paper, M3:2048 in section 4.3.1.
    """
    digest = keccak(value)
    return (
        1 << (int.from_bytes(digest[0:2], "big") & 2047)
        | 1 << (int.from_bytes(digest[2:4], "big") & 2047)
        | 1 << (int.from_bytes(digest[4:6], "big") & 2047)
    )
