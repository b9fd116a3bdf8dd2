"""The rows of the chain tables as NamedTuples; field order is COPY order.

Hashes, addresses and data are ``bytes``, numbers ``int``, times aware
``datetime``; ``extra``, ``access_list`` and ``authorization_list`` are JSON text
(already valid for ``jsonb``). Absent is ``None``, never zero.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class BlockRow(NamedTuple):
    """A row of ``blocks``."""

    number: int
    hash: bytes
    parent_hash: bytes
    timestamp: datetime | None
    miner: bytes | None
    gas_limit: int | None
    gas_used: int | None
    base_fee_per_gas: int | None
    size: int | None
    difficulty: int | None
    total_difficulty: int | None
    nonce: bytes | None
    mix_hash: bytes | None
    sha3_uncles: bytes | None
    logs_bloom: bytes | None
    transactions_root: bytes | None
    state_root: bytes | None
    receipts_root: bytes | None
    withdrawals_root: bytes | None
    parent_beacon_block_root: bytes | None
    requests_hash: bytes | None
    blob_gas_used: int | None
    excess_blob_gas: int | None
    extra_data: bytes | None
    uncles: tuple[bytes, ...] | None
    extra: str | None


class TransactionRow(NamedTuple):
    """A row of ``transactions``."""

    block_number: int
    transaction_index: int
    hash: bytes
    from_address: bytes | None
    to_address: bytes | None
    type: int | None
    nonce: int | None
    value: int | None
    gas: int | None
    gas_price: int | None
    max_fee_per_gas: int | None
    max_priority_fee_per_gas: int | None
    max_fee_per_blob_gas: int | None
    chain_id: int | None
    v: int | None
    r: int | None
    s: int | None
    y_parity: int | None
    input: bytes | None
    blob_versioned_hashes: tuple[bytes, ...] | None
    access_list: str | None
    authorization_list: str | None
    extra: str | None


class WithdrawalRow(NamedTuple):
    """A row of ``withdrawals``; ``amount`` is in Gwei, as the chain has it.

    ``withdrawal_index`` is the column ``index``, a name that tuples have taken.
    """

    block_number: int
    withdrawal_index: int
    validator_index: int | None
    address: bytes | None
    amount: int | None
    extra: str | None


class ReceiptRow(NamedTuple):
    """A row of ``receipts``."""

    block_number: int
    transaction_index: int
    transaction_hash: bytes
    from_address: bytes | None
    to_address: bytes | None
    contract_address: bytes | None
    type: int | None
    status: int | None
    root: bytes | None
    cumulative_gas_used: int | None
    gas_used: int | None
    effective_gas_price: int | None
    blob_gas_used: int | None
    blob_gas_price: int | None
    logs_bloom: bytes | None
    extra: str | None


class LogRow(NamedTuple):
    """A row of ``logs``; only logs that were not removed are ever stored."""

    block_number: int
    log_index: int
    transaction_index: int | None
    transaction_hash: bytes | None
    address: bytes
    topic0: bytes | None
    topic1: bytes | None
    topic2: bytes | None
    topic3: bytes | None
    data: bytes
    extra: str | None


class BlockData(NamedTuple):
    """What ``eth_getBlockByNumber`` with full transactions gives for a height."""

    block: BlockRow
    transactions: list[TransactionRow]
    withdrawals: list[WithdrawalRow]
    raw_bytes: int

    def ref(self) -> BlockRef:
        """Return as much of it as fetching its receipts needs."""
        block = self.block
        return BlockRef(
            number=block.number,
            hash=block.hash,
            timestamp=block.timestamp,
            receipts_root=block.receipts_root,
            logs_bloom=block.logs_bloom,
            transaction_hashes=tuple([row.hash for row in self.transactions]),
        )


class BlockEvents(NamedTuple):
    """The receipts and logs of one block, named by its hash."""

    number: int
    hash: bytes
    receipts: list[ReceiptRow]
    logs: list[LogRow]
    raw_bytes: int


class BlockRef(NamedTuple):
    """A stored block, as much of it as fetching its receipts needs.

    ``transaction_hashes`` are in index order. ``receipts_root`` and
    ``logs_bloom`` tell a truly empty answer from a withheld one (C4);
    ``timestamp`` tells whether a log's ``blockTimestamp`` repeats the block's.
    """

    number: int
    hash: bytes
    timestamp: datetime | None
    receipts_root: bytes | None
    logs_bloom: bytes | None
    transaction_hashes: tuple[bytes, ...]
