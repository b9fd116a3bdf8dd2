"""Small well-formed replies for tests to bend: blocks, transactions, receipts, logs."""

from __future__ import annotations

import json
from typing import Any

from indexer.chain.decode import decode_block
from indexer.rows import BlockRef

METHOD = "eth_test"
TIMESTAMP = 0x64000000
EMPTY_ROOT = "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"
SOME_ROOT = "0x" + "ee" * 32
EMPTY_BLOOM = "0x" + "00" * 256
SOME_BLOOM = "0x" + "00" * 255 + "01"


def encoded(value: object) -> bytes:
    """Return compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def hash_of(number: int, kind: str = "b1") -> str:
    """Return a hash that tells what it is of."""
    return "0x" + kind + f"{number:062x}"


def transaction(number: int, index: int, **fields: Any) -> dict[str, Any]:
    """Return a transaction of a block."""
    return {
        "blockHash": hash_of(number),
        "blockNumber": hex(number),
        "hash": hash_of(number * 1000 + index, "7a"),
        "transactionIndex": hex(index),
        "from": "0x" + "aa" * 20,
        "to": None,
        "type": "0x2",
        "nonce": "0x1",
        "value": "0x0",
        "gas": "0x5208",
        "input": "0x",
        **fields,
    }


def block(
    number: int, *, transactions: int = 0, logs: int = 0, **fields: Any
) -> dict[str, Any]:
    """Return a block whose header says whether its transactions have logs."""
    return {
        "number": hex(number),
        "hash": hash_of(number),
        "parentHash": hash_of(number - 1) if number else "0x" + "00" * 32,
        "timestamp": hex(TIMESTAMP),
        "logsBloom": SOME_BLOOM if logs else EMPTY_BLOOM,
        "receiptsRoot": SOME_ROOT if transactions else EMPTY_ROOT,
        "transactions": [transaction(number, index) for index in range(transactions)],
        "uncles": [],
        **fields,
    }


def log(number: int, index: int, log_index: int, **fields: Any) -> dict[str, Any]:
    """Return a log of the transaction ``index`` of a block."""
    return {
        "address": "0x" + "cc" * 20,
        "topics": ["0x" + f"{log_index:064x}"],
        "data": "0x01",
        "blockHash": hash_of(number),
        "blockNumber": hex(number),
        "transactionHash": hash_of(number * 1000 + index, "7a"),
        "transactionIndex": hex(index),
        "logIndex": hex(log_index),
        "removed": False,
        **fields,
    }


def receipt(
    number: int, index: int, *, logs: list[dict[str, Any]] | None = None, **fields: Any
) -> dict[str, Any]:
    """Return a receipt of a block's transaction."""
    return {
        "blockHash": hash_of(number),
        "blockNumber": hex(number),
        "transactionHash": hash_of(number * 1000 + index, "7a"),
        "transactionIndex": hex(index),
        "status": "0x1",
        "gasUsed": "0x5208",
        "cumulativeGasUsed": hex(0x5208 * (index + 1)),
        "logsBloom": SOME_BLOOM if logs else EMPTY_BLOOM,
        "logs": logs or [],
        **fields,
    }


def receipts(number: int, *, transactions: int, logs: int = 0) -> list[dict[str, Any]]:
    """Return the receipts of :func:`block`, the logs all in the first one."""
    first = [log(number, 0, position) for position in range(logs)]
    return [
        receipt(number, index, logs=first if index == 0 else [])
        for index in range(transactions)
    ]


def ref_of(reply: dict[str, Any]) -> BlockRef:
    """Return what is stored of a block."""
    data = decode_block(encoded(reply), number=None, method=METHOD)
    assert data is not None
    return BlockRef(
        data.block.number,
        data.block.hash,
        data.block.timestamp,
        data.block.receipts_root,
        data.block.logs_bloom,
        tuple(row.hash for row in data.transactions),
    )
