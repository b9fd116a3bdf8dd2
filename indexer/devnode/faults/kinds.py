"""All kinds of faults by name."""

from __future__ import annotations

import msgspec

from indexer.devnode.faults.batches import BATCH_KINDS
from indexer.devnode.faults.block_lies import BLOCK_KINDS
from indexer.devnode.faults.bodies import BODY_KINDS
from indexer.devnode.faults.errors import ERROR_KINDS
from indexer.devnode.faults.fault import Fault
from indexer.devnode.faults.kind import Kind
from indexer.devnode.faults.receipt_lies import RECEIPT_KINDS
from indexer.devnode.faults.requests import REQUEST_KINDS
from indexer.devnode.faults.texts import TEXT_KINDS
from indexer.devnode.faults.views import VIEW_KINDS

KINDS: dict[str, Kind] = {
    **REQUEST_KINDS,
    **ERROR_KINDS,
    **BLOCK_KINDS,
    **RECEIPT_KINDS,
    **TEXT_KINDS,
    **BATCH_KINDS,
    **BODY_KINDS,
    **VIEW_KINDS,
}


def completed(fault: Fault) -> Fault:
    """Return the fault with its kind's own values where it has none.

    Raises:
        ValueError: there is no such kind, or it has nothing to do with the method.
    """
    kind = KINDS.get(fault.kind)
    if kind is None:
        raise ValueError(f"there is no fault {fault.kind!r}, only {', '.join(KINDS)}")
    if fault.method is not None and kind.methods and fault.method not in kind.methods:
        raise ValueError(f"{fault.kind} has nothing to do with {fault.method}")
    missing = {
        name: value for name, value in kind.defaults.items() if not getattr(fault, name)
    }
    return msgspec.structs.replace(fault, **missing)
