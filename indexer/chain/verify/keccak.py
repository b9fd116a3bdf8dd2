"""Keccak-256 as Ethereum uses it, which is not the later SHA3-256."""

from __future__ import annotations

from sha3 import keccak_256 as _keccak_256  # type: ignore[import-untyped]


def keccak(data: bytes) -> bytes:
    """Return the 32 bytes of a digest."""
    digest: bytes = _keccak_256(data).digest()
    return digest


def keccaks(items: list[bytes]) -> list[bytes]:
    """Return the digest of each item, without a Python call an item."""
    return [hasher.digest() for hasher in map(_keccak_256, items)]
