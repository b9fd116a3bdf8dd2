"""Rows made by hand for tests of the tables, with values at their limits."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from indexer.rows import (
    BlockData,
    BlockEvents,
    BlockRow,
    LogRow,
    ReceiptRow,
    TransactionRow,
    WithdrawalRow,
)

MAX_256 = 2**256 - 1
MAX_64 = 2**64 - 1


def fake_hash(*parts: object) -> bytes:
    """Return 32 bytes that depend on the parts."""
    return hashlib.sha256(repr(parts).encode()).digest()


def block_data(
    number: int, *, fork: str = "", parent: str = "", transactions: int = 2
) -> BlockData:
    """Return a block whose parent is the block below on the ``parent`` fork."""
    block_hash = fake_hash("block", number, fork)
    block = BlockRow(
        number=number,
        hash=block_hash,
        parent_hash=fake_hash("block", number - 1, parent),
        timestamp=datetime.fromtimestamp(1_700_000_000 + 12 * number, UTC),
        miner=b"\x01" * 20,
        gas_limit=MAX_64,
        gas_used=2**63 - 1,
        base_fee_per_gas=MAX_256,
        size=1,
        difficulty=0,
        total_difficulty=None,
        nonce=b"\x00" * 8,
        mix_hash=bytes(32),
        sha3_uncles=bytes(32),
        logs_bloom=b"\x01" * 256 if transactions else bytes(256),
        transactions_root=bytes(32),
        state_root=bytes(32),
        receipts_root=fake_hash("receipts", number),
        withdrawals_root=None,
        parent_beacon_block_root=None,
        requests_hash=None,
        blob_gas_used=None,
        excess_blob_gas=0,
        extra_data=b"",
        uncles=(fake_hash("uncle", number), fake_hash("uncle", -number)),
        extra='{"l1BlockNumber":"0x10","note":"\\u00e9"}',
    )
    rows = [
        TransactionRow(
            block_number=number,
            transaction_index=index,
            hash=fake_hash("transaction", number, index),
            from_address=b"\x02" * 20,
            to_address=None if index == 0 else b"\x03" * 20,
            type=0x7E,
            nonce=MAX_64,
            value=MAX_256,
            gas=21000,
            gas_price=10**18,
            max_fee_per_gas=None,
            max_priority_fee_per_gas=0,
            max_fee_per_blob_gas=1,
            chain_id=1,
            v=27,
            r=MAX_256,
            s=1,
            y_parity=0,
            input=b"" if index else b"\x00\xff" * 600,
            blob_versioned_hashes=() if index else (b"\x01" * 32,),
            access_list='[{"address":"0x00","storageKeys":[]}]',
            authorization_list=None,
            extra=None,
        )
        for index in range(transactions)
    ]
    withdrawals = [
        WithdrawalRow(number, 10 * number, 7, b"\x04" * 20, MAX_64, None),
    ]
    return BlockData(block, rows, withdrawals, raw_bytes=1000)


def block_events(data: BlockData) -> BlockEvents:
    """Return receipts and one log for each transaction of a sample block."""
    receipts = [
        ReceiptRow(
            block_number=row.block_number,
            transaction_index=row.transaction_index,
            transaction_hash=row.hash,
            from_address=row.from_address,
            to_address=row.to_address,
            contract_address=None,
            type=row.type,
            status=1,
            root=None,
            cumulative_gas_used=2**63 - 1,
            gas_used=21000,
            effective_gas_price=MAX_256,
            blob_gas_used=None,
            blob_gas_price=None,
            logs_bloom=bytes(256),
            extra='{"l1FeeScalar":"0.684"}',
        )
        for row in data.transactions
    ]
    logs = [
        LogRow(
            block_number=row.block_number,
            log_index=row.transaction_index,
            transaction_index=row.transaction_index,
            transaction_hash=row.hash,
            address=b"\x05" * 20,
            topic0=bytes(32),
            topic1=None,
            topic2=b"\x06" * 32,
            topic3=None,
            data=b"\x00odd",
            extra=None,
        )
        for row in data.transactions
    ]
    return BlockEvents(data.block.number, data.block.hash, receipts, logs, 500)
