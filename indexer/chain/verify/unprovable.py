"""Say why something cannot be proven, which is no fault of the data."""

from __future__ import annotations


class Unprovable(Exception):
    """A commitment cannot be recomputed; the text says what is missing.

    It never leaves this package: whoever proves something turns it into a reason.
    """
