"""The recorded chain of 54 blocks and every fork, from its RLP to rows.

It is read with another library, and hashes are made with another Keccak, so that
these rows may judge whoever proves rows. They have what a chain itself has: no
senders, no sizes, no total difficulty.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import rlp  # type: ignore[import-untyped]
from eth_hash.auto import keccak

from indexer.rows import BlockData, BlockRow, TransactionRow, WithdrawalRow
from tests.support.fixtures import FOLDER

Items = list[Any]


def rlp_chain() -> list[BlockData]:
    """Return the rows of the blocks in ``chain.rlp``, from 1 on."""
    data = (FOLDER / "execution-apis" / "chain.rlp").read_bytes()
    return [_rlp_block(item) for item in _rlp_items(data)]


def _rlp_items(data: bytes) -> Iterator[Items]:
    position = 0
    while position < len(data):
        item, _, position = rlp.codec.consume_item(data, position)
        yield item


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _rlp_block(item: Items) -> BlockData:
    header, transactions, uncles, *rest = item
    block = _rlp_header(header, uncles)
    rows = [
        _rlp_transaction(block.number, place, encoded)
        for place, encoded in enumerate(transactions)
    ]
    withdrawals = [
        WithdrawalRow(
            block.number,
            _number(index),
            _number(validator),
            address,
            _number(amount),
            None,
        )
        for index, validator, address, amount in (rest[0] if rest else [])
    ]
    return BlockData(block, rows, withdrawals, raw_bytes=0)


def _rlp_header(header: Items, uncles: Items) -> BlockRow:
    later = [*header[15:], *[None] * 6]
    base_fee, withdrawals, blob_gas, excess, beacon, requests = later[:6]
    return BlockRow(
        number=_number(header[8]),
        hash=keccak(rlp.encode(header)),
        parent_hash=header[0],
        timestamp=datetime.fromtimestamp(_number(header[11]), UTC),
        miner=header[2],
        gas_limit=_number(header[9]),
        gas_used=_number(header[10]),
        base_fee_per_gas=None if base_fee is None else _number(base_fee),
        size=None,
        difficulty=_number(header[7]),
        total_difficulty=None,
        nonce=header[14],
        mix_hash=header[13],
        sha3_uncles=header[1],
        logs_bloom=header[6],
        transactions_root=header[4],
        state_root=header[3],
        receipts_root=header[5],
        withdrawals_root=withdrawals,
        parent_beacon_block_root=beacon,
        requests_hash=requests,
        blob_gas_used=None if blob_gas is None else _number(blob_gas),
        excess_blob_gas=None if excess is None else _number(excess),
        extra_data=header[12],
        uncles=tuple(keccak(rlp.encode(uncle)) for uncle in uncles),
        extra=None,
    )


_SIGNATURE = ("v", "r", "s")
_CALL = ("gas", "to_address", "value", "input")
_FEES = ("max_priority_fee_per_gas", "max_fee_per_gas")
_LAYOUTS = {
    0: ("nonce", "gas_price", *_CALL, *_SIGNATURE),
    1: ("chain_id", "nonce", "gas_price", *_CALL, "access_list", *_SIGNATURE),
    2: ("chain_id", "nonce", *_FEES, *_CALL, "access_list", *_SIGNATURE),
    3: (
        *("chain_id", "nonce", *_FEES, *_CALL, "access_list"),
        *("max_fee_per_blob_gas", "blob_versioned_hashes", *_SIGNATURE),
    ),
    4: (
        *("chain_id", "nonce", *_FEES, *_CALL, "access_list"),
        *("authorization_list", *_SIGNATURE),
    ),
}


def _rlp_transaction(block: int, place: int, encoded: Items | bytes) -> TransactionRow:
    if isinstance(encoded, bytes):
        kind, fields, raw = encoded[0], rlp.decode(encoded[1:]), encoded
    else:
        kind, fields, raw = 0, encoded, rlp.encode(encoded)
    named = dict(zip(_LAYOUTS[kind], fields, strict=True))
    values = {name: _value(name, value) for name, value in named.items()}
    if kind:
        values["y_parity"] = values["v"]
    row: dict[str, Any] = dict.fromkeys(TransactionRow._fields)
    row |= values
    row |= {"block_number": block, "transaction_index": place, "type": kind}
    return TransactionRow(**row | {"hash": keccak(raw)})


def _value(name: str, value: Any) -> Any:
    if name == "input":
        return value
    if name == "to_address":
        return value or None
    if name == "blob_versioned_hashes":
        return tuple(value)
    if name == "access_list":
        return json.dumps(
            [
                {"address": _hex(address), "storageKeys": [_hex(key) for key in keys]}
                for address, keys in value
            ]
        )
    if name == "authorization_list":
        names = ("chainId", "address", "nonce", "yParity", "r", "s")
        return json.dumps(
            [
                {
                    field: _hex(part) if field == "address" else hex(_number(part))
                    for field, part in zip(names, item, strict=True)
                }
                for item in value
            ]
        )
    return _number(value)


def _hex(data: bytes) -> str:
    return "0x" + data.hex()


def as_json(data: BlockData) -> dict[str, Any]:
    """Return a block as a node gives it; the senders, which no RLP has, are zero."""
    block = {
        _camel(name): _json(value)
        for name, value in data.block._asdict().items()
        if value is not None and name != "extra"
    }
    block["timestamp"] = hex(int((data.block.timestamp or _EPOCH).timestamp()))
    block["transactions"] = [_transaction_json(data, row) for row in data.transactions]
    if data.block.withdrawals_root is not None:
        block["withdrawals"] = [
            {
                "index": hex(row.withdrawal_index),
                "validatorIndex": hex(row.validator_index or 0),
                "address": _hex(row.address or b""),
                "amount": hex(row.amount or 0),
            }
            for row in data.withdrawals
        ]
    return block


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _transaction_json(data: BlockData, row: TransactionRow) -> dict[str, Any]:
    item = {
        _camel(name): _json(value)
        for name, value in row._asdict().items()
        if value is not None and name != "extra"
    }
    for name in ("access_list", "authorization_list"):
        text = getattr(row, name)
        if text is not None:
            item[_camel(name)] = json.loads(text)
    sender = {"from": _hex(bytes(20)), "to": None}
    if row.to_address is not None:
        sender["to"] = _hex(row.to_address)
    item.pop("toAddress", None)
    return {**item, **sender, "blockHash": _hex(data.block.hash)}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return _hex(value)
    if isinstance(value, tuple):
        return [_hex(each) for each in value]
    return hex(value) if isinstance(value, int) else value


def receipts_json(data: BlockData) -> list[dict[str, Any]]:
    """Return the receipts of a block of the chain as a node gives them.

    Nobody published them, so the chain was executed by another EVM, from its genesis:
    @ethereumjs/vm 10. What it found is kept as cumulative gas, status (or root), and
    logs as address, topics and data, or how many zero bytes that is. The headers'
    receipts roots say that nothing of it is wrong.
    """
    found = _executed()[data.block.number - 1]
    place, gas_before, items = 0, 0, []
    pairs = zip(data.transactions, found, strict=True)
    for index, (row, (gas, outcome, logs)) in enumerate(pairs):
        common = {
            "blockHash": _hex(data.block.hash),
            "blockNumber": hex(data.block.number),
            "transactionHash": _hex(row.hash),
            "transactionIndex": hex(index),
        }
        shown = []
        for address, topics, kept in logs:
            content = _hex(bytes(kept)) if isinstance(kept, int) else kept
            log = {"address": address, "topics": topics, "data": content}
            shown.append({**common, **log, "logIndex": hex(place), "removed": False})
            place += 1
        how = "root" if isinstance(outcome, str) else "status"
        items.append(
            {
                **common,
                "from": _hex(bytes(20)),
                "to": None if row.to_address is None else _hex(row.to_address),
                "type": hex(row.type or 0),
                "cumulativeGasUsed": hex(gas),
                "gasUsed": hex(gas - gas_before),
                "logs": shown,
                "logsBloom": _hex(_bloom(shown)),
                how: outcome if isinstance(outcome, str) else hex(outcome),
            }
        )
        gas_before = gas
    return items


@cache
def _executed() -> list[list[tuple[int, str | int, list[Items]]]]:
    path = Path(__file__).with_name("chain_receipts.json")
    found: list[list[tuple[int, str | int, list[Items]]]] = json.loads(path.read_text())
    return found


def _bloom(logs: list[dict[str, Any]]) -> bytes:
    bloom = 0
    for text in (each for log in logs for each in (log["address"], *log["topics"])):
        digest = keccak(bytes.fromhex(text[2:]))
        for at in (0, 2, 4):
            bloom |= 1 << (_number(digest[at : at + 2]) & 2047)
    return bloom.to_bytes(256, "big")
