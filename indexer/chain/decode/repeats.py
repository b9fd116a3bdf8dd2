"""Fields that repeat what another object says: verified, and not stored twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeVar

from msgspec import UNSET, UnsetType

from indexer.chain.decode.extras import Extras
from indexer.chain.decode.kinds import Kind, shortened
from indexer.errors import InconsistentResponse

T = TypeVar("T", int, bytes)
Repeated = Sequence[str | int | UnsetType | None]


def hex_text(value: int | bytes) -> str:
    """Return a value as nodes write it."""
    return hex(value) if isinstance(value, int) else f"0x{value.hex()}"


def differing(values: Repeated, expected: T, kind: Kind[str, T]) -> list[int]:
    """Return the rows whose value is there and is not ``expected``.

    A null or unreadable value differs; an absent one does not.
    """
    usual = hex_text(expected)
    if values.count(usual) == len(values):
        return []
    return [
        row
        for row, value in enumerate(values)
        if value != usual and value is not UNSET and not _is(value, expected, kind)
    ]


def confirm(
    values: Repeated, expected: T, kind: Kind[str, T], *, what: str, block: int
) -> None:
    """Raise InconsistentResponse unless every value there is ``expected``."""
    for row in differing(values, expected, kind):
        found = values[row]
        said = shortened(found) if isinstance(found, str) else json.dumps(found)
        raise InconsistentResponse(
            f"block {block}: {what} {row} says {said}, not {hex_text(expected)}",
            block_number=block,
        )


def keep_other_times(
    values: Repeated, timestamp: int | None, kind: Kind[str, int], extras: Extras
) -> None:
    """Keep each ``blockTimestamp`` that does not repeat the block's own."""
    if values.count(UNSET) == len(values):
        return
    if timestamp is None:
        rows = [row for row, value in enumerate(values) if value is not UNSET]
    else:
        rows = differing(values, timestamp, kind)
    for row in rows:
        extras.keep(row, "blockTimestamp", json.dumps(values[row]).encode())


def _is(value: object, expected: T, kind: Kind[str, T]) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return kind.one(value) == expected
    except ValueError:
        return False
