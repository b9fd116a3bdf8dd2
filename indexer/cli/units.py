"""Bytes and durations as people write them."""

from __future__ import annotations


def size(count: float) -> str:
    """Write bytes as people do."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def duration(seconds: float) -> str:
    """Write a duration in its largest unit."""
    for length, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if abs(seconds) >= length:
            return f"{seconds / length:.1f} {name}"
    return f"{seconds:.0f} s"
