"""Blocks and events as COPY data, with what the checks of a write need of them.

Encoded before the transaction begins, so that no lock waits for Python; and the rows
themselves, twice as large, need not outlive it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from indexer.ranges import BlockRange
from indexer.rows import BlockData, BlockEvents, BlockRow
from indexer.store.copy import EncodedRows, encode
from indexer.store.tables import BLOCKS, LOGS, RECEIPTS, TRANSACTIONS, WITHDRAWALS


@dataclass(frozen=True, slots=True)
class EncodedBlocks:
    """Consecutive blocks with their transactions and withdrawals, ready for COPY."""

    headers: list[BlockRow]
    blocks: EncodedRows
    transactions: EncodedRows
    withdrawals: EncodedRows

    @property
    def range(self) -> BlockRange:
        """The heights."""
        return BlockRange(self.headers[0].number, self.headers[-1].number)

    @property
    def rows(self) -> int:
        """How many rows there are in all tables."""
        return self.blocks.count + self.transactions.count + self.withdrawals.count


@dataclass(frozen=True, slots=True)
class EncodedEvents:
    """The receipts and logs of consecutive blocks, ready for COPY."""

    hashes: dict[int, bytes]
    receipts: EncodedRows
    logs: EncodedRows

    @property
    def range(self) -> BlockRange:
        """The heights."""
        return BlockRange(min(self.hashes), max(self.hashes))

    @property
    def rows(self) -> int:
        """How many rows there are in both tables."""
        return self.receipts.count + self.logs.count


async def encode_blocks(data: Sequence[BlockData]) -> EncodedBlocks:
    """Encode consecutive blocks, at least one."""
    headers = [each.block for each in data]
    return EncodedBlocks(
        headers,
        await encode(BLOCKS, headers),
        await encode(TRANSACTIONS, [row for each in data for row in each.transactions]),
        await encode(WITHDRAWALS, [row for each in data for row in each.withdrawals]),
    )


async def encode_events(data: Sequence[BlockEvents]) -> EncodedEvents:
    """Encode the receipts and logs of consecutive blocks, at least one."""
    return EncodedEvents(
        {each.number: each.hash for each in data},
        await encode(RECEIPTS, [row for each in data for row in each.receipts]),
        await encode(LOGS, [row for each in data for row in each.logs]),
    )
