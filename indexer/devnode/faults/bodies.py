"""Finished bodies that do not arrive as they should."""

from __future__ import annotations

from indexer.devnode.faults.fault import Fault
from indexer.devnode.faults.kind import BodyKind, Response


def _truncated(_fault: Fault, body: bytes) -> Response:
    return Response(body[: len(body) // 2])


def _cut(_fault: Fault, body: bytes) -> Response:
    return Response(body, stop=len(body) // 2)


def _drip(fault: Fault, body: bytes) -> Response:
    return Response(body, pieces=fault.count, seconds=fault.seconds)


BODY_KINDS = {
    "truncated": BodyKind(
        doc="Half of the JSON, in an HTTP answer that is whole.",
        send=_truncated,
        scheduled=True,
    ),
    "cut": BodyKind(
        doc="The connection ends in the middle of the body.", send=_cut, scheduled=True
    ),
    "drip": BodyKind(
        doc="The body comes in `count` pieces (20), `seconds` (0.05) apart.",
        send=_drip,
        defaults={"count": 20, "seconds": 0.05},
    ),
}
