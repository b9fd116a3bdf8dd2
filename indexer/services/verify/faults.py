"""What can be wrong with stored rows, and what was found in a piece of them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from indexer.ranges import BlockRange


class FaultKind(StrEnum):
    """What is wrong with a height."""

    MISSING_BLOCK = "missing block"
    MISSING_EVENTS = "missing receipts and logs"
    ORPHANED_ROWS = "orphaned rows"
    BROKEN_LINK = "broken link"
    HEADER = "wrong header"
    TRANSACTIONS = "wrong transactions"
    WITHDRAWALS = "wrong withdrawals"
    RECEIPTS = "wrong receipts"
    LOGS = "wrong logs"
    BLOOM = "wrong bloom"
    OTHER_BLOCK = "not the node's block"
    OTHER_FIELD = "not what the node gives"


class Fault(msgspec.Struct, frozen=True):
    """A fault of one or more heights, both ends included; ``detail`` of the first."""

    kind: FaultKind
    first: int
    last: int
    detail: str

    @property
    def blocks(self) -> BlockRange:
        """Return the heights."""
        return BlockRange(self.first, self.last)

    def __str__(self) -> str:
        where = f"block {self.first}"
        if self.last > self.first:
            where = f"blocks {self.first}..{self.last}"
        return f"{where}: {self.kind}: {self.detail}"


class Reason(msgspec.Struct):
    """Why something could not be proven: of how many blocks, and the lowest."""

    what: str
    blocks: int
    first: int


class Tally(msgspec.Struct):
    """How many heights of a dataset were looked at, and what came of it."""

    looked_at: int = 0
    proven: int = 0
    unprovable: int = 0
    wrong: int = 0
    waiting: int = 0

    def add(self, other: Tally) -> None:
        """Add what was found elsewhere."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Found(msgspec.Struct):
    """What was found in a piece, or in all of them.

    ``tops`` are heights and hashes that a node has to have for all the stored blocks
    between them to be its own: hashes commit to parents.
    """

    blocks: Tally = msgspec.field(default_factory=Tally)
    events: Tally = msgspec.field(default_factory=Tally)
    rows: int = 0
    reasons: list[Reason] = msgspec.field(default_factory=list)
    faults: list[Fault] = msgspec.field(default_factory=list)
    tops: list[tuple[int, bytes]] = msgspec.field(default_factory=list)

    def add(self, other: Found) -> None:
        """Add what was found in another piece; not its ``tops``."""
        self.blocks.add(other.blocks)
        self.events.add(other.events)
        self.rows += other.rows
        self.faults.extend(other.faults)
        for reason in other.reasons:
            self.cannot_prove(reason.what, reason.first, reason.blocks)

    def cannot_prove(self, what: str, number: int, blocks: int = 1) -> None:
        """Take note of a reason."""
        for known in self.reasons:
            if known.what == what:
                known.blocks += blocks
                known.first = min(known.first, number)
                return
        self.reasons.append(Reason(what, blocks, number))


def joined(faults: Iterable[Fault]) -> list[Fault]:
    """Return the same faults in order, those of one kind at neighbours as one."""
    merged: list[Fault] = []
    by_kind: dict[FaultKind, int] = {}
    for fault in sorted(faults, key=lambda each: (each.first, each.last)):
        at = by_kind.get(fault.kind)
        if at is not None and merged[at].last + 1 == fault.first:
            merged[at] = msgspec.structs.replace(merged[at], last=fault.last)
            continue
        by_kind[fault.kind] = len(merged)
        merged.append(fault)
    return merged
