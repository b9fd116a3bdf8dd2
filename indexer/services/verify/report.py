"""What an audit has shown: proven, not proven and why, each fault; as text and JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime

import msgspec

from indexer.ranges import BlockRange
from indexer.services.verify.faults import Fault, Reason, Tally

# Columns that no hash of a block covers: they are the node's word.
NOT_COMMITTED = (
    "transactions.from_address",
    "transactions.gas_price of types 2 and above",
    "receipts.from_address, to_address, contract_address, effective_gas_price, "
    "blob_gas_used, blob_gas_price",
    "blocks.size, total_difficulty, uncles",
    "extra, where the chain's encoding does not know the field",
)
_SHOWN = 50


class Repair(msgspec.Struct):
    """What ``--repair`` did: heights replaced, jobs queued, what it had to leave."""

    replaced: list[BlockRange] = msgspec.field(default_factory=list)
    removed: list[BlockRange] = msgspec.field(default_factory=list)
    jobs_queued: int = 0
    jobs_retried: int = 0
    left: list[str] = msgspec.field(default_factory=list)


class Against(msgspec.Struct):
    """Which nodes were asked, for how many hashes and how many whole blocks."""

    nodes: list[str]
    hashes_compared: int
    blocks_compared: int
    not_answered: list[str]


class Report(msgspec.Struct):
    """An audit's result. Ranges and heights include both ends."""

    version: str
    audit: int
    schema: str
    chain_id: str | None
    genesis_hash: str | None
    profile: str
    provable: list[str]
    wanted: list[BlockRange]
    sample: int | None
    seed: int
    started_at: datetime
    finished_at: datetime | None
    seconds: float
    blocks: Tally
    events: Tally
    rows: int
    waiting_blocks: int
    not_provable: list[Reason]
    not_committed: tuple[str, ...]
    against: Against | None
    faults: list[Fault]
    repair: Repair | None = None
    digest: str = ""

    @property
    def is_clean(self) -> bool:
        """Whether no fault was found."""
        return not self.faults

    def sign(self) -> None:
        """Set the digest: SHA-256 over the report as JSON without it."""
        self.digest = ""
        self.digest = hashlib.sha256(self.as_json()).hexdigest()

    def as_json(self) -> bytes:
        """Return it as a JSON object."""
        return msgspec.json.encode(self)

    def lines(self) -> Iterator[str]:
        """Yield it as lines of text."""
        yield from self._subject()
        yield from self._proven()
        yield from self._not_proven()
        yield from self._faults()
        yield from self._repaired()
        yield self._verdict()
        yield f"signed off by indexer {self.version}, sha256 {self.digest}"

    def _subject(self) -> Iterator[str]:
        where = ", ".join(str(each) for each in self.wanted) or "nothing"
        yield (
            f"audit {self.audit} of schema {self.schema}, chain {self.chain_id}, "
            f"blocks {where}"
        )
        if self.sample is not None:
            yield f"a sample of {self.sample} blocks, drawn with --seed {self.seed}"
        yield (
            f"{self.rows:,} rows of {self.blocks.looked_at:,} blocks read in "
            f"{self.seconds:.1f} s"
        )

    def _proven(self) -> Iterator[str]:
        yield (
            f"blocks: {self.blocks.proven:,} proven (hash of the header, transactions "
            f"root, withdrawals root), {self.blocks.unprovable:,} not provable in "
            f"part, {self.blocks.wrong:,} wrong"
        )
        yield (
            f"receipts and logs: of {self.events.proven:,} blocks proven (receipts "
            f"root, blooms), {self.events.unprovable:,} not provable in part, "
            f"{self.events.wrong:,} wrong"
        )
        if self.against is not None:
            yield (
                f"node: {self.against.hashes_compared:,} hashes compared with "
                f"{', '.join(self.against.nodes)}; each stands for all blocks that it "
                "links to"
            )

    def _not_proven(self) -> Iterator[str]:
        if self.waiting_blocks or self.events.waiting:
            yield (
                f"not yet there: {self.waiting_blocks:,} blocks and the receipts of "
                f"{self.events.waiting:,} more wait for jobs that are queued"
            )
        for reason in self.not_provable:
            yield (
                f"not provable: {reason.what} ({reason.blocks:,} blocks, the first is "
                f"{reason.first})"
            )
        if self.against is None:
            yield "not compared with a node: none was named (--rpc-url)"
        else:
            for text in self.against.not_answered[:_SHOWN]:
                yield f"not compared with a node: {text}"
        told = "compared with no node (--every-field with --rpc-url does)"
        if self.against is not None and self.against.blocks_compared:
            told = (
                f"compared with the node's in {self.against.blocks_compared:,} blocks"
            )
        yield f"covered by no hash of a block: {'; '.join(self.not_committed)}: {told}"

    def _faults(self) -> Iterator[str]:
        for fault in self.faults[:_SHOWN]:
            yield f"FAULT {fault}"
        if len(self.faults) > _SHOWN:
            yield f"… and {len(self.faults) - _SHOWN} more; --json has them all"

    def _repaired(self) -> Iterator[str]:
        if self.repair is None:
            return
        for what, ranges in (
            ("replaced by the node's", self.repair.replaced),
            ("rows of no block removed", self.repair.removed),
        ):
            if ranges:
                yield f"repair: {what}: {', '.join(str(each) for each in ranges)}"
        if self.repair.jobs_queued or self.repair.jobs_retried:
            yield (
                f"repair: {self.repair.jobs_queued} jobs queued and "
                f"{self.repair.jobs_retried} failed ones made pending for what is "
                "missing; `indexer work` fetches it"
            )
        for text in self.repair.left:
            yield f"repair: LEFT AS IT IS: {text}"

    def _verdict(self) -> str:
        if self.faults:
            kinds = sorted({fault.kind.value for fault in self.faults})
            return f"NOT SOUND: {len(self.faults)} faults ({', '.join(kinds)})"
        whole = self.blocks.unprovable == 0 and self.events.unprovable == 0
        if whole and not self.waiting_blocks and not self.events.waiting:
            return "SOUND: every stored row that a block commits to is proven"
        return "SOUND as far as it can be proven; what could not be is named above"
