"""Batches whose replies are not those that were asked for, one by one."""

from __future__ import annotations

from random import Random

from indexer.devnode import messages
from indexer.devnode.faults.fault import Fault
from indexer.devnode.faults.kind import BatchKind, Parts


def _shuffled(fault: Fault, parts: Parts, choice: int) -> Parts | None:
    if len(parts) < 2:
        return None
    mixed = parts.copy()
    Random(fault.seed + choice).shuffle(mixed)
    return mixed[::-1] if mixed == parts else mixed


def _short(fault: Fault, parts: Parts, choice: int) -> Parts | None:
    if len(parts) < 2:
        return None
    at = choice % len(parts)
    return parts[:at] + parts[at + fault.count :]


def _doubled(_fault: Fault, parts: Parts, choice: int) -> Parts | None:
    return [*parts, parts[choice % len(parts)]] if len(parts) > 1 else None


def _repeated(_fault: Fault, parts: Parts, choice: int) -> Parts | None:
    if len(parts) < 2:
        return None
    at = choice % (len(parts) - 1)
    return [*parts[:at], parts[at + 1], *parts[at + 1 :]]


def _swapped(_fault: Fault, parts: Parts, choice: int) -> Parts | None:
    if len(parts) < 2:
        return None
    at = choice % (len(parts) - 1)
    (one, first), (other, second) = parts[at : at + 2]
    return [*parts[:at], (one, second), (other, first), *parts[at + 2 :]]


def _foreign_id(_fault: Fault, parts: Parts, choice: int) -> Parts:
    at = choice % len(parts)
    return [*parts[:at], (b"987654321987", parts[at][1]), *parts[at + 1 :]]


def _same_id(_fault: Fault, parts: Parts, _choice: int) -> Parts | None:
    if len(parts) < 2:
        return None
    return [(parts[0][0], member) for _, member in parts]


def _one_error(fault: Fault, parts: Parts, _choice: int) -> bytes | None:
    if len(parts) < 2:
        return None
    return messages.error(b"null", fault.code, fault.message)


def _response_limit(fault: Fault, parts: Parts, _choice: int) -> Parts | None:
    total, limited = 0, []
    for call_id, member in parts:
        total += len(member)
        if total > fault.count:
            member = messages.error_member(fault.code, fault.message)
        limited.append((call_id, member))
    return limited if total > fault.count else None


BATCH_KINDS = {
    "batch_shuffled": BatchKind(
        doc="The replies of a batch come in another order, which is allowed.",
        arrange=_shuffled,
        scheduled=True,
    ),
    "batch_short": BatchKind(
        doc="`count` replies (1) of a batch are missing.",
        arrange=_short,
        defaults={"count": 1},
        scheduled=True,
    ),
    "batch_doubled": BatchKind(
        doc="A reply of a batch comes twice.", arrange=_doubled, scheduled=True
    ),
    "batch_repeated": BatchKind(
        doc="A reply of a batch stands in the place of another one too.",
        arrange=_repeated,
        scheduled=True,
    ),
    "batch_swapped": BatchKind(
        doc="Two replies of a batch carry each other's id.",
        arrange=_swapped,
        scheduled=True,
    ),
    "foreign_id": BatchKind(
        doc="A reply, also of a single call, has an id that nobody sent.",
        arrange=_foreign_id,
        needs_batch=False,
        scheduled=True,
    ),
    "batch_same_id": BatchKind(
        doc="All replies of a batch have the id of the first.",
        arrange=_same_id,
        scheduled=True,
    ),
    "batch_one_error": BatchKind(
        doc="A batch is answered with one error object, `code` (-32000) and `message`.",
        arrange=_one_error,
        defaults={"code": -32000, "message": "internal error"},
        scheduled=True,
    ),
    "response_limit": BatchKind(
        doc="Results past `count` bytes (25,000,000) are errors, as in geth.",
        arrange=_response_limit,
        needs_batch=False,
        defaults={
            "count": 25_000_000,
            "code": -32003,
            "message": "response too large",
        },
    ),
}
