"""Which of the possible blocks are canonical: forks, and transactions that moved."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from indexer.devnode.blocks import Body
from indexer.devnode.receipts import Receipt
from indexer.devnode.transactions import Transaction


class Moved(NamedTuple):
    """What a block took over from those it replaced.

    ``base_fee`` is one that all its transactions can pay.
    """

    transactions: list[Transaction]
    receipts: list[Receipt]
    base_fee: int


class Forks:
    """Heights from a fork on have its salt, up to the next fork."""

    def __init__(self) -> None:
        self._starts = [0]
        self._salts = [0]
        self._last_salt = 0
        self.moved: dict[int, Moved] = {}

    def salt(self, height: int) -> int:
        """Return the salt of the blocks at a height."""
        return self._salts[bisect_right(self._starts, height) - 1]

    @property
    def new_salt(self) -> int:
        """Return a salt that no fork has had."""
        return self._last_salt + 1

    def begin(self, at_height: int, salt: int) -> None:
        """Give all heights above ``at_height`` a salt, whatever they had."""
        start = at_height + 1
        if start < 1:
            raise ValueError("the genesis block cannot be replaced")
        keep = bisect_right(self._starts, at_height)
        self._starts[keep:] = [start]
        self._salts[keep:] = [salt]
        self._last_salt = max(self._last_salt, salt)
        for height in [height for height in self.moved if height >= start]:
            del self.moved[height]

    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Return the forks as (height below, salt), lowest first."""
        starts = [start - 1 for start in self._starts[1:]]
        return tuple(zip(starts, self._salts[1:], strict=True))


def deal(bodies: Sequence[tuple[Body, int]], count: int) -> list[Moved]:
    """Deal the transactions of some blocks out to ``count`` others, last ones first.

    Each of ``bodies`` comes with its base fee.
    """
    pool = [
        (transaction, receipt, base_fee)
        for body, base_fee in reversed(bodies)
        for transaction, receipt in zip(
            reversed(body.transactions), reversed(body.receipts), strict=True
        )
    ]
    ends = [len(pool) * turn // count for turn in range(count + 1)]
    lowest = min(base_fee for _, base_fee in bodies)
    return [_block(pool[start:end], lowest) for start, end in pairwise(ends)]


def _block(dealt: list[tuple[Transaction, Receipt, int]], lowest: int) -> Moved:
    receipts, gas = [], 0
    for _, receipt, _ in dealt:
        gas += receipt.gas_used
        receipts.append(receipt._replace(cumulative_gas_used=gas))
    base_fee = min((fee for _, _, fee in dealt), default=lowest)
    return Moved([transaction for transaction, _, _ in dealt], receipts, base_fee)
