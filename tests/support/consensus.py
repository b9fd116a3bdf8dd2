"""What a block's hashes must be, from its JSON, with other people's libraries.

Neither the node that makes chains nor the code that proves them is used here, so
this may judge both. It is slow and written to be read beside the EIPs.
"""

from __future__ import annotations

from typing import Any

import rlp  # type: ignore[import-untyped]
from eth_hash.auto import keccak
from trie.hexary import HexaryTrie

Json = dict[str, Any]


def _number(value: str) -> bytes:
    assert value == hex(int(value, 16)), f"{value} is not a minimal quantity"
    number = int(value, 16)
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _data(value: str | None) -> bytes:
    return b"" if value is None else bytes.fromhex(value.removeprefix("0x"))


def _rlp(value: Any) -> bytes:
    encoded: bytes = rlp.encode(value)
    return encoded


_HEADER = (
    ("parentHash", _data),
    ("sha3Uncles", _data),
    ("miner", _data),
    ("stateRoot", _data),
    ("transactionsRoot", _data),
    ("receiptsRoot", _data),
    ("logsBloom", _data),
    ("difficulty", _number),
    ("number", _number),
    ("gasLimit", _number),
    ("gasUsed", _number),
    ("timestamp", _number),
    ("extraData", _data),
    ("mixHash", _data),
    ("nonce", _data),
    ("baseFeePerGas", _number),
    ("withdrawalsRoot", _data),
    ("blobGasUsed", _number),
    ("excessBlobGas", _number),
    ("parentBeaconBlockRoot", _data),
    ("requestsHash", _data),
)


def _header(block: Json) -> list[bytes]:
    return [read(block[name]) for name, read in _HEADER]


def header_hash(block: Json) -> str:
    """Return the hash of a Prague header."""
    return "0x" + keccak(_rlp(_header(block))).hex()


def _access_list(transaction: Json) -> list[Any]:
    return [
        [_data(entry["address"]), [_data(key) for key in entry["storageKeys"]]]
        for entry in transaction["accessList"]
    ]


def transaction_bytes(transaction: Json) -> bytes:
    """Return the EIP-2718 encoding of a transaction of type 0 to 4."""
    kind = int(transaction["type"], 16)
    call: list[Any] = [
        _number(transaction["gas"]),
        _data(transaction["to"]),
        _number(transaction["value"]),
        _data(transaction["input"]),
    ]
    signature = [_number(transaction[name]) for name in ("v", "r", "s")]
    nonce = _number(transaction["nonce"])
    if kind == 0:
        return _rlp([nonce, _number(transaction["gasPrice"]), *call, *signature])
    fields: list[Any] = [_number(transaction["chainId"]), nonce]
    if kind == 1:
        fields.append(_number(transaction["gasPrice"]))
    else:
        fields.append(_number(transaction["maxPriorityFeePerGas"]))
        fields.append(_number(transaction["maxFeePerGas"]))
    fields += [*call, _access_list(transaction)]
    if kind == 3:
        fields.append(_number(transaction["maxFeePerBlobGas"]))
        fields.append([_data(item) for item in transaction["blobVersionedHashes"]])
    if kind == 4:
        fields.append(
            [
                [
                    _number(item["chainId"]),
                    _data(item["address"]),
                    _number(item["nonce"]),
                    _number(item["yParity"]),
                    _number(item["r"]),
                    _number(item["s"]),
                ]
                for item in transaction["authorizationList"]
            ]
        )
    return bytes([kind]) + _rlp([*fields, *signature])


def transaction_hash(transaction: Json) -> str:
    """Return the hash of a transaction."""
    return "0x" + keccak(transaction_bytes(transaction)).hex()


def receipt_bytes(receipt: Json) -> bytes:
    """Return the EIP-2718 encoding of a receipt since Byzantium."""
    logs = [
        [_data(log["address"]), [_data(t) for t in log["topics"]], _data(log["data"])]
        for log in receipt["logs"]
    ]
    body = _rlp(
        [
            _number(receipt["status"]),
            _number(receipt["cumulativeGasUsed"]),
            _data(receipt["logsBloom"]),
            logs,
        ]
    )
    kind = int(receipt["type"], 16)
    return body if kind == 0 else bytes([kind]) + body


def _withdrawal(item: Json) -> list[bytes]:
    return [
        _number(item["index"]),
        _number(item["validatorIndex"]),
        _data(item["address"]),
        _number(item["amount"]),
    ]


def list_root(items: list[bytes]) -> str:
    """Return the root of the trie over a list."""
    trie = HexaryTrie({})
    for index, item in enumerate(items):
        trie[rlp.encode(index)] = item
    return "0x" + trie.root_hash.hex()


def transactions_root(block: Json) -> str:
    """Return the root over a block's full transactions."""
    return list_root([transaction_bytes(item) for item in block["transactions"]])


def withdrawals_root(block: Json) -> str:
    """Return the root over a block's withdrawals."""
    return list_root([_rlp(_withdrawal(item)) for item in block["withdrawals"]])


def receipts_root(receipts: list[Json]) -> str:
    """Return the root over a block's receipts."""
    return list_root([receipt_bytes(item) for item in receipts])


def logs_bloom(logs: list[Json]) -> str:
    """Return the bloom of some logs."""
    bits = bytearray(256)
    for log in logs:
        for value in (log["address"], *log["topics"]):
            digest = keccak(_data(value))
            for at in (0, 2, 4):
                bit = int.from_bytes(digest[at : at + 2], "big") % 2048
                bits[255 - bit // 8] |= 1 << bit % 8
    return "0x" + bits.hex()


def block_size(block: Json) -> int:
    """Return the length of a block's RLP."""
    listed = [
        rlp.decode(transaction_bytes(item))
        if item["type"] == "0x0"
        else transaction_bytes(item)
        for item in block["transactions"]
    ]
    paid = [_withdrawal(item) for item in block["withdrawals"]]
    return len(_rlp([_header(block), listed, [], paid]))


def created_address(sender: str, nonce: str) -> str:
    """Return where a transaction that creates a contract puts it."""
    return "0x" + keccak(_rlp([_data(sender), _number(nonce)]))[12:].hex()
