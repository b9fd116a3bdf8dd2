"""The chain tables as COPY needs them: names, columns in row order, types."""

from __future__ import annotations

from typing import NamedTuple

from indexer.rows import BlockRow, LogRow, ReceiptRow, TransactionRow, WithdrawalRow


class Table(NamedTuple):
    """A chain table; ``columns`` and ``types`` are in the order of its row type."""

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    height_column: str


_BIGINTS = frozenset(
    {
        "number",
        "block_number",
        "withdrawal_index",
        "validator_index",
        "gas",
        "gas_used",
        "cumulative_gas_used",
        "size",
        "blob_gas_used",
        "excess_blob_gas",
    }
)
_INTEGERS = frozenset({"transaction_index", "log_index", "type", "y_parity"})
_NUMERICS = frozenset(
    {
        "gas_limit",
        "base_fee_per_gas",
        "difficulty",
        "total_difficulty",
        "value",
        "gas_price",
        "max_fee_per_gas",
        "max_priority_fee_per_gas",
        "max_fee_per_blob_gas",
        "chain_id",
        "v",
        "r",
        "s",
        "amount",
        "effective_gas_price",
        "blob_gas_price",
    }
)
_OTHERS = {
    "timestamp": "timestamptz",
    "status": "int2",
    "uncles": "bytea[]",
    "blob_versioned_hashes": "bytea[]",
    "access_list": "jsonb",
    "authorization_list": "jsonb",
    "extra": "jsonb",
}


def _type_of(table: str, field: str) -> str:
    if field == "nonce":
        # A block's nonce is eight bytes of data, a transaction's a number.
        return "bytea" if table == "blocks" else "numeric"
    if field in _BIGINTS:
        return "int8"
    if field in _INTEGERS:
        return "int4"
    if field in _NUMERICS:
        return "numeric"
    return _OTHERS.get(field, "bytea")


def _table(name: str, fields: tuple[str, ...], height_column: str) -> Table:
    columns = tuple("index" if each == "withdrawal_index" else each for each in fields)
    types = tuple(_type_of(name, each) for each in fields)
    return Table(name, columns, types, height_column)


BLOCKS = _table("blocks", BlockRow._fields, "number")
TRANSACTIONS = _table("transactions", TransactionRow._fields, "block_number")
WITHDRAWALS = _table("withdrawals", WithdrawalRow._fields, "block_number")
RECEIPTS = _table("receipts", ReceiptRow._fields, "block_number")
LOGS = _table("logs", LogRow._fields, "block_number")

ALL_TABLES = (BLOCKS, TRANSACTIONS, WITHDRAWALS, RECEIPTS, LOGS)
