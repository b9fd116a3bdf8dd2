"""The kinds of jobs and their payloads, read strictly.

``index_blocks`` takes ``{"from": a, "to": b}``, both included. ``index_events`` takes
the same, or ``{"height": h, "hash": "0x…"}`` from the follower, or ``{"height": h}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from indexer.errors import JobRefused
from indexer.ranges import BlockRange

INDEX_BLOCKS = "index_blocks"
INDEX_EVENTS = "index_events"

TIP_PRIORITY = 0
REPAIR_PRIORITY = 5
BACKFILL_PRIORITY = 10

_MAX_HEIGHT = 2**63 - 2


class EventsTarget(NamedTuple):
    """The blocks whose receipts are wanted; ``hash`` where one block is pinned."""

    blocks: BlockRange
    hash: bytes | None


def range_payload(blocks: BlockRange) -> dict[str, object]:
    """Return the payload for a range, both ends included."""
    return {"from": blocks.first, "to": blocks.last}


def tip_payload(number: int, block_hash: bytes) -> dict[str, object]:
    """Return the payload for one block, pinned by its hash."""
    return {"height": number, "hash": "0x" + block_hash.hex()}


def read_range(payload: Mapping[str, object]) -> BlockRange:
    """Read ``{"from": a, "to": b}``.

    Raises JobRefused where it is anything else.
    """
    first, last = payload.get("from"), payload.get("to")
    if not (_is_height(first) and _is_height(last)) or set(payload) != {"from", "to"}:
        raise JobRefused(
            'the payload must be {"from": first, "to": last} with whole heights, both '
            "included; enqueue it again with `indexer plan`"
        )
    if first > last:  # type: ignore[operator]
        raise JobRefused(f"the payload's range {first}..{last} is reversed")
    return BlockRange(first, last)  # type: ignore[arg-type]


def read_events_target(payload: Mapping[str, object]) -> EventsTarget:
    """Read a payload of ``index_events``.

    Raises JobRefused where it is none of its three forms.
    """
    if "height" not in payload:
        return EventsTarget(read_range(payload), None)
    height, text = payload["height"], payload.get("hash")
    if not _is_height(height) or not set(payload) <= {"height", "hash"}:
        raise JobRefused('the payload must be {"height": h} or {"height": h, "hash"}')
    pinned = None
    if text is not None:
        try:
            pinned = bytes.fromhex(str(text).removeprefix("0x"))
        except ValueError:
            pinned = b""
        if len(pinned) != 32:
            raise JobRefused("the payload's hash is not 32 bytes of hex")
    return EventsTarget(BlockRange(height, height), pinned)  # type: ignore[arg-type]


def _is_height(value: object) -> bool:
    return (
        isinstance(value, int)
        and not isinstance(value, bool)
        and 0 <= value <= _MAX_HEIGHT
    )
