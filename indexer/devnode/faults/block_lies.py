"""Lies about blocks and about which block something is of."""

from __future__ import annotations

from typing import Any

from indexer.devnode.faults.fault import Fault
from indexer.devnode.faults.kind import BLOCKS, LOGS, RECEIPT, RECEIPTS, TRANSACTION
from indexer.devnode.faults.lies import (
    Json,
    lie,
    members,
    objects,
    other_digit,
    other_hash,
)

_PLACED = RECEIPTS | RECEIPT | LOGS | TRANSACTION
_COVERED = ("data", "input", "cumulativeGasUsed", "stateRoot", "address")
_MAX = "0x" + "f" * 64
_NUMBERS = (
    "baseFeePerGas",
    "cumulativeGasUsed",
    "effectiveGasPrice",
    "gas",
    "gasLimit",
    "gasPrice",
    "gasUsed",
    "maxFeePerGas",
    "timestamp",
    "value",
)


def _wrong_hash(_fault: Fault, result: Any) -> bool | None:  # noqa: ANN401 - JSON
    found = False
    for item in objects(result):
        name = "hash" if "parentHash" in item else "blockHash"
        if item.get(name):
            item[name] = other_hash(item[name])
            found = True
    return None if found else False


def _stray_hash(_fault: Fault, result: Any) -> bool | None:  # noqa: ANN401 - JSON
    placed = members(result)
    if not placed:
        return False
    placed[-1]["blockHash"] = other_hash(placed[-1]["blockHash"])
    return None


def _wrong_number(_fault: Fault, result: Any) -> bool | None:  # noqa: ANN401 - JSON
    found = False
    for item in objects(result):
        name = "number" if "parentHash" in item else "blockNumber"
        if item.get(name):
            item[name] = hex(int(item[name], 16) + 1)
            found = True
    return None if found else False


def _wrong_parent(_fault: Fault, result: Json) -> None:
    result["parentHash"] = other_hash(result["parentHash"])


def _pending(_fault: Fault, result: Json) -> None:
    for name in ("hash", "nonce", "number"):
        result[name] = None


def _short(fault: Fault, result: Json) -> bool | None:
    if not result["transactions"]:
        return False
    del result["transactions"][-fault.count :]
    return None


def _tampered(_fault: Fault, result: Any) -> bool | None:  # noqa: ANN401 - JSON
    """Change a digit of what is only covered by a root or by the block's hash."""
    for item in reversed(list(objects(result))):
        for name in _COVERED:
            # A lone 0x has no digit.
            if len(item.get(name) or "") > 2:
                item[name] = other_digit(item[name])
                return None
    return False


def _max_values(_fault: Fault, result: Any) -> bool | None:  # noqa: ANN401 - JSON
    found = False
    for item in objects(result):
        for name in _NUMBERS:
            if name in item:
                item[name] = _MAX
                found = True
    return None if found else False


def _missing_field(fault: Fault, result: Any) -> bool | None:  # noqa: ANN401 - JSON
    for item in objects(result):
        if fault.field in item:
            del item[fault.field]
            return None
    return False


def _unknown_type(fault: Fault, result: Any) -> bool | None:  # noqa: ANN401 - JSON
    """Make the last of a block's transactions an Optimism deposit, or its receipt."""
    typed = [item for item in objects(result) if "type" in item]
    if not typed:
        return False
    last = typed[-1]
    last["type"] = fault.field
    if "input" in last:
        last.update(sourceHash=other_hash(last["hash"]), mint="0x0", isSystemTx=False)
    else:
        last.update(depositNonce="0x1", depositReceiptVersion="0x1")
    return None


BLOCK_KINDS = {
    "wrong_hash": lie(
        "All that names the block's hash names another one, the same throughout.",
        BLOCKS | _PLACED,
        _wrong_hash,
    ),
    "stray_hash": lie(
        "One transaction, receipt or log names another block than its neighbours.",
        BLOCKS | _PLACED,
        _stray_hash,
    ),
    "wrong_number": lie(
        "All that names the block's number names the next one.",
        BLOCKS | _PLACED,
        _wrong_number,
    ),
    "wrong_parent": lie("The parent hash is another one.", BLOCKS, _wrong_parent),
    "pending_block": lie(
        "Hash, number and nonce are null, as of a pending block.", BLOCKS, _pending
    ),
    "short_block": lie(
        "The last `count` transactions (1) are missing from the block.",
        BLOCKS,
        _short,
        count=1,
    ),
    "tampered": lie(
        "A digit is wrong that only a root or the block's hash can reveal.",
        BLOCKS | RECEIPTS | RECEIPT | LOGS,
        _tampered,
    ),
    "max_values": lie(
        "Prices, values, gas and the timestamp are 2^256-1.",
        BLOCKS | RECEIPTS | RECEIPT,
        _max_values,
    ),
    "missing_field": lie(
        "The first `field` (gasUsed) that there is is left out.",
        BLOCKS | _PLACED,
        _missing_field,
        field="gasUsed",
    ),
    "unknown_type": lie(
        "The block's last transaction and its receipt are of type `field` (0x7e).",
        BLOCKS | RECEIPTS,
        _unknown_type,
        scheduled=False,
        field="0x7e",
    ),
}
