"""The stored rows of blocks, proven again from nothing but themselves; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from indexer.chain.checks import check_events
from indexer.chain.verify import (
    Commitment,
    Profile,
    Proof,
    prove_block,
    prove_events,
)
from indexer.chain.verify.bloom import EMPTY_BLOOM
from indexer.chain.verify.trie import EMPTY_ROOT
from indexer.errors import ChainDataError
from indexer.ranges import BlockRange, difference, intersection, runs
from indexer.rows import BlockData, BlockEvents, BlockRow
from indexer.services.proofs import LEFT_OUT
from indexer.services.verify.each import KINDS, prove_each
from indexer.services.verify.faults import Fault, FaultKind, Found
from indexer.store.read import StoredRows

# Why parts of a block cannot be proven.
Unprovable: TypeAlias = Mapping[Commitment, str]

_OF_BLOCK = (Commitment.HEADER, Commitment.TRANSACTIONS, Commitment.WITHDRAWALS)
_BELOW_GENESIS = "no chain has a block below its first one"
_OF_EVENTS = (Commitment.RECEIPTS, Commitment.BLOOM)


class Examination:
    """What the rows of some heights show.

    ``stored``, ``proven``, ``wrong`` and ``unprovable`` (with the reasons) are heights
    by dataset; ``absent`` are those that should have receipts or logs and have none.
    """

    def __init__(self, profile: Profile) -> None:
        self.found = Found()
        self.absent: list[int] = []
        self.orphans: dict[int, dict[str, int]] = {}
        self.stored: dict[str, list[int]] = {"blocks": [], "events": []}
        self.proven: dict[str, list[int]] = {"blocks": [], "events": []}
        self.wrong: dict[str, list[int]] = {"blocks": [], "events": []}
        self.unprovable: dict[str, dict[int, Unprovable]] = {"blocks": {}, "events": {}}
        self._profile = profile
        self._run_top: BlockRow | None = None

    def look_at(self, rows: StoredRows, below: tuple[int, bytes] | None) -> None:
        """Examine all rows of a range; ``below`` is the block stored right below."""
        self.found.rows += rows.row_count
        linked = below
        for data, events in zip(rows.blocks, rows.events, strict=True):
            if data.block.number < 0:
                self._fault(FaultKind.ORPHANED_ROWS, data.block.number, _BELOW_GENESIS)
                continue
            self._link(data.block, linked)
            self._block(data)
            self._events(data, events)
            linked = (data.block.number, data.block.hash)
        self._end_run()
        self.orphans.update(rows.orphans)

    def name_orphans(self, waiting: Sequence[BlockRange]) -> None:
        """Name rows of no block, but where a job will fetch it and put them right."""
        for run in difference(runs(self.orphans), waiting):
            for number in run.heights():
                listed = ", ".join(
                    f"{count} of {name}" for name, count in self.orphans[number].items()
                )
                self._fault(
                    FaultKind.ORPHANED_ROWS, number, f"no block, but rows: {listed}"
                )

    def _fault(self, kind: FaultKind, number: int, detail: str) -> None:
        self.found.faults.append(Fault(kind, number, number, detail))

    def _link(self, block: BlockRow, below: tuple[int, bytes] | None) -> None:
        follows = below is not None and below[0] + 1 == block.number
        fits = below is not None and below[1] == block.parent_hash
        if follows and not fits and below is not None:
            self._fault(
                FaultKind.BROKEN_LINK,
                block.number,
                f"its parent is 0x{block.parent_hash.hex()}, but block {below[0]} is "
                f"stored as 0x{below[1].hex()}",
            )
        if not (follows and fits):
            self._end_run()

    def _end_run(self) -> None:
        """Have the top of a run of linked blocks compared with a node's."""
        if self._run_top is not None:
            self.found.tops.append((self._run_top.number, self._run_top.hash))
            self._run_top = None

    def _block(self, data: BlockData) -> None:
        block = data.block
        faults, proof = prove_each(
            lambda profile: prove_block(data, profile), _OF_BLOCK, self._profile
        )
        if proof is not None and Commitment.TRANSACTIONS in proof.unprovable:
            faults += _numbered(FaultKind.TRANSACTIONS, data.transactions)
        self._enter("blocks", block.number, faults, proof)
        if not (proof and Commitment.HEADER in proof.proven):
            # Only a proven header says what its parent is.
            self._end_run()
            self.found.tops.append((block.number, block.hash))
        else:
            self._run_top = block

    def _events(self, data: BlockData, events: BlockEvents) -> None:
        block = data.block
        if not events.receipts and not events.logs:
            if _should_have_events(data):
                self.absent.append(block.number)
                return
            if (
                block.receipts_root == EMPTY_ROOT
                and block.logs_bloom == EMPTY_BLOOM
                and self._profile.proves >= set(_OF_EVENTS)
            ):
                self._enter("events", block.number, [], _EMPTY_PROOF)
                return
        faults: list[tuple[FaultKind, str]] = []
        faults += _numbered(FaultKind.RECEIPTS, events.receipts)
        faults += _numbered(FaultKind.LOGS, events.logs)
        proof = None
        if not faults:
            faults += _checked(data, events)
            wrong, proof = prove_each(
                lambda profile: prove_events(block, events, profile),
                _OF_EVENTS,
                self._profile,
            )
            faults += [each for each in wrong if each not in faults]
        self._enter("events", block.number, faults, proof)

    def _enter(
        self,
        dataset: str,
        number: int,
        faults: Sequence[tuple[FaultKind, str]],
        proof: Proof | None,
    ) -> None:
        self.stored[dataset].append(number)
        for kind, detail in faults:
            self._fault(kind, number, detail)
        if faults or proof is None:
            self.wrong[dataset].append(number)
        elif proof.unprovable:
            self.unprovable[dataset][number] = proof.unprovable
        else:
            self.proven[dataset].append(number)

    def left_out(self) -> dict[int, str]:
        """Return the headers that lack a field which every header has, and which."""
        return {
            number: reason
            for number, reasons in self.unprovable["blocks"].items()
            if (reason := reasons.get(Commitment.HEADER, "")).startswith(LEFT_OUT)
        }

    def name_left_out(self, *, elsewhere: bool) -> None:
        """Take them for wrong where other headers have theirs.

        ``elsewhere`` is whether headers of other heights have been proven.
        """
        if not elsewhere and not self.proven["blocks"]:
            return
        for number, reason in self.left_out().items():
            del self.unprovable["blocks"][number]
            self._fault(
                FaultKind.HEADER, number, f"others are proven, but of this {reason}"
            )
            self.wrong["blocks"].append(number)

    def doubt(self, dataset: str, known: Sequence[BlockRange]) -> None:
        """Take heights that were proven, or wrong, once and cannot be proven for wrong.

        Whatever they were proven by was in the rows, and is not there any more.
        """
        before = intersection(runs(self.unprovable[dataset]), known)
        for number in (each for run in before for each in run.heights()):
            for commitment, reason in self.unprovable[dataset].pop(number).items():
                self._fault(
                    KINDS[commitment],
                    number,
                    f"it was proven before, and cannot be from the rows now: {reason}",
                )
            self.wrong[dataset].append(number)

    def tally(self) -> None:
        """Count what was found."""
        for dataset, tally in (
            ("blocks", self.found.blocks),
            ("events", self.found.events),
        ):
            tally.looked_at += len(self.stored[dataset])
            tally.proven += len(self.proven[dataset])
            tally.unprovable += len(self.unprovable[dataset])
            tally.wrong += len(self.wrong[dataset])
            for number, reasons in self.unprovable[dataset].items():
                for commitment, reason in reasons.items():
                    # Which transaction of the block it is makes no other reason.
                    why = reason.rpartition(": ")[2]
                    self.found.cannot_prove(f"{commitment}: {why}", number)


_EMPTY_PROOF = Proof(frozenset(_OF_EVENTS), {})


def _numbered(
    kind: FaultKind, rows: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[FaultKind, str]]:
    """Yield a fault unless rows are numbered 0, 1, 2, …"""
    for place, row in enumerate(rows):
        if row[1] != place:
            what = kind.removeprefix("wrong ")
            yield (
                kind,
                f"there are {len(rows)} {what}, but none numbered {place}; the next "
                f"is numbered {row[1]}",
            )
            return


def _checked(data: BlockData, events: BlockEvents) -> Iterator[tuple[FaultKind, str]]:
    """Yield a fault unless each transaction has its receipt, and no other."""
    try:
        check_events(data.ref(), events)
    except ChainDataError as error:
        detail = str(error).replace("the node gives", "there is stored")
        yield FaultKind.RECEIPTS, detail


def _should_have_events(data: BlockData) -> bool:
    block = data.block
    has_receipts = bool(data.transactions) and block.receipts_root != EMPTY_ROOT
    return has_receipts or block.logs_bloom not in (None, EMPTY_BLOOM)
