"""Rows to prove, from recorded replies, and what the index says of these."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NamedTuple

from indexer.chain.decode import decode_block, decode_block_receipts, decode_header
from indexer.rows import (
    BlockData,
    BlockEvents,
    BlockRef,
    BlockRow,
)
from tests.support.fixtures import FOLDER, Recorded, recorded

METHOD = "eth_test"


class Listed(NamedTuple):
    """A line of the folder's index: whether hash and transactions root were checked."""

    file: str
    hash: str
    transactions_root: str


def index() -> list[Listed]:
    """Return the files that the index lists."""
    path = FOLDER / "INDEX.md"
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    return [
        Listed(row[1], row[6], row[7])
        for row in cells
        if len(row) > 8 and row[1].endswith(".json")
    ]


@cache
def everything() -> tuple[Recorded, ...]:
    """Return all recorded objects."""
    return tuple(recorded())


def recorded_block(file: str) -> dict[str, Any]:
    """Return the JSON of the one block in a file."""
    [item] = [i for i in everything() if i.file == file and i.kind == "block"]
    value: dict[str, Any] = item.value
    return value


def block_rows(file: str) -> BlockData:
    """Return the rows of the block in a file; it has its full transactions."""
    data = decode_block(_encoded(recorded_block(file)), number=None, method=METHOD)
    assert data is not None
    return data


def header_row(file: str) -> BlockRow:
    """Return the row of the header in a file, whatever its transactions are."""
    row = decode_header(_encoded(recorded_block(file)), number=None, method=METHOD)
    assert row is not None
    return row


def has_transactions(file: str) -> bool:
    """Tell whether the block in a file has its transactions, all of them, in full."""
    listed = recorded_block(file).get("transactions")
    return isinstance(listed, list) and all(isinstance(item, dict) for item in listed)


def recorded_receipts(block_hash: bytes) -> list[dict[str, Any]]:
    """Return all recorded receipts of a block, whatever files they are in."""
    found = {
        receipt["transactionHash"]: receipt
        for item in everything()
        if item.kind == "receipts"
        for receipt in item.value
        if receipt["blockHash"] == f"0x{block_hash.hex()}"
    }
    return sorted(found.values(), key=lambda item: int(item["transactionIndex"], 16))


def event_rows(block: BlockRow) -> BlockEvents:
    """Return the rows of all recorded receipts of a block."""
    raw = _encoded(recorded_receipts(block.hash))
    events = decode_block_receipts(raw, ref=reference(block), method=METHOD)
    assert events is not None
    return events


def reference(block: BlockRow) -> BlockRef:
    """Return what fetching receipts needs of a block."""
    return BlockRef(
        number=block.number,
        hash=block.hash,
        timestamp=block.timestamp,
        receipts_root=block.receipts_root,
        logs_bloom=block.logs_bloom,
        transaction_hashes=(),
    )


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode()
