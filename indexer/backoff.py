"""Exponential delays with jitter; pure, the randomness is passed in."""

from __future__ import annotations

from random import Random


def delay_seconds(
    failures: int, *, base: float, cap: float, random: Random | None = None
) -> float:
    """Return min(cap, base · 2^min(failures, 20) · (0.5 + random)) seconds.

    The cap comes after the jitter, so no delay is ever above it. ``failures``
    counts from 0 for the first delay. A job's own delay is computed by the
    same formula in SQL, because only the database's clock decides there.
    """
    source = random if random is not None else _SHARED
    return min(cap, base * 2.0 ** min(failures, 20) * (0.5 + source.random()))


_SHARED = Random()
