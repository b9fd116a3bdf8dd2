"""Answers from another backend: behind, on another fork, or of another chain."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from indexer.devnode.faults.fault import Fault
from indexer.devnode.faults.kind import BLOCKS, RECEIPTS, Kind, ViewKind
from indexer.devnode.served import ServedChain


class View:
    """A chain seen through another backend.

    ``blocks`` is where the blocks come from; the head is that of ``chain``,
    ``behind`` blocks lower, and what is above it hidden if ``hides``. Asked for a
    height it gives the block ``shift`` lower.
    """

    def __init__(
        self,
        chain: ServedChain,
        *,
        blocks: ServedChain | None = None,
        behind: int = 0,
        hides: bool = True,
        shift: int = 0,
        chain_id: int | None = None,
    ) -> None:
        self._chain = chain
        self._blocks = chain if blocks is None else blocks
        self._behind = behind
        self._hides = hides
        self._shift = shift
        self._chain_id = chain_id

    @property
    def chain_id(self) -> int:
        """Return the chain id."""
        return self._chain.chain_id if self._chain_id is None else self._chain_id

    @property
    def head(self) -> int:
        """Return the height of the latest block."""
        return max(0, self._chain.head - self._behind)

    @property
    def safe(self) -> int | None:
        """Return the safe height, as far behind as the head."""
        return self._lower(self._chain.safe)

    @property
    def finalized(self) -> int | None:
        """Return the finalized height, as far behind as the head."""
        return self._lower(self._chain.finalized)

    @property
    def generated(self) -> int:
        """Return how many heights, from 0, are made already."""
        return self._blocks.generated

    def is_made(self, height: int) -> bool:
        """Return whether the block at a height is made already."""
        return self._blocks.is_made(height)

    def generate(self, height: int, *, seconds: float = inf) -> None:
        """Make the whole chain up to a height, or what one gets in ``seconds``."""
        self._blocks.generate(height, seconds=seconds)

    def reach(self, height: int, *, seconds: float = inf) -> None:
        """Make the block at a height, or what one gets of it in ``seconds``."""
        self._blocks.reach(height, seconds=seconds)

    def holds(self, height: int) -> bool:
        """Return whether there is a block to serve at a height."""
        self._follow()
        shown = height <= self.head or not self._hides
        return shown and self._blocks.holds(height)

    def is_empty(self, height: int) -> bool:
        """Return whether the block surely holds no transactions."""
        return self._blocks.is_empty(self._shifted(height))

    def hash_at(self, height: int) -> bytes:
        """Return the hash of the block at a height."""
        return self._blocks.hash_at(self._shifted(height))

    def height_of(self, block_hash: bytes) -> int | None:
        """Return the height of a served block by its hash."""
        self._follow()
        height = self._blocks.height_of(block_hash)
        return height if height is not None and self.holds(height) else None

    def place_of(self, transaction_hash: bytes) -> tuple[int, int] | None:
        """Return where a transaction may stand: its height and index."""
        self._follow()
        place = self._blocks.place_of(transaction_hash)
        return place if place is not None and self.holds(place[0]) else None

    def block_json(self, height: int, full: bool) -> bytes:
        """Return a block, with whole transactions or their hashes."""
        return self._blocks.block_json(self._shifted(height), full)

    def receipts_json(self, height: int) -> bytes:
        """Return the list of a block's receipts."""
        return self._blocks.receipts_json(self._shifted(height))

    def _follow(self) -> None:
        if self._blocks is not self._chain:
            self._blocks.set_head(self._chain.head)

    def _shifted(self, height: int) -> int:
        lower = max(0, height - self._shift)
        return lower if self._blocks.holds(lower) else height

    def _lower(self, height: int | None) -> int | None:
        return None if height is None else max(0, height - self._behind)


def _behind(fault: Fault, heads: Sequence[int]) -> Sequence[int]:
    return [head - fault.count for head in heads if head >= fault.count]


def _skipped(fault: Fault, heads: Sequence[int]) -> Sequence[int]:
    return [head for head in heads if head % (fault.count + 1) == 0]


def _other_genesis(fault: Fault, chain: ServedChain) -> View:
    return View(chain, blocks=chain.alternative(seed=fault.seed))


def _other_fork(fault: Fault, chain: ServedChain) -> View:
    fork = (fault.height, fault.seed)
    return View(chain, blocks=chain.alternative(fork=fork))


VIEW_KINDS: dict[str, Kind] = {
    "lag": ViewKind(
        doc="The head is `count` blocks (25) behind, blocks above it are null.",
        view=lambda fault, chain: View(chain, behind=fault.count),
        defaults={"count": 25},
        heads=_behind,
        scheduled=True,
    ),
    "head_back": ViewKind(
        doc="The head is given as `count` blocks (100) lower; the blocks stay.",
        view=lambda fault, chain: View(chain, behind=fault.count, hides=False),
        defaults={"count": 100},
        scheduled=True,
    ),
    "other_fork": ViewKind(
        doc="Above `height` (0) the blocks are those of the fork `seed` (1).",
        view=_other_fork,
        defaults={"seed": 1},
    ),
    "other_genesis": ViewKind(
        doc="All blocks, genesis too, are those of another chain with the same id.",
        view=_other_genesis,
        defaults={"seed": 1},
    ),
    "other_chain_id": ViewKind(
        doc="The chain id is `count` (1) higher, the blocks are the same.",
        view=lambda fault, chain: View(chain, chain_id=chain.chain_id + fault.count),
        defaults={"count": 1},
    ),
    "other_block": ViewKind(
        doc="Asked for a block or its receipts it gives those `count` (1) lower.",
        view=lambda fault, chain: View(chain, shift=fault.count),
        methods=BLOCKS | RECEIPTS,
        defaults={"count": 1},
        scheduled=True,
    ),
    "skip_heads": Kind(
        doc="newHeads leaves out `count` heights (1) between any two.",
        defaults={"count": 1},
        heads=_skipped,
    ),
}
