"""Receipts and logs: their consensus encoding and geth's JSON."""

from __future__ import annotations

from typing import NamedTuple

from indexer.devnode import rlp
from indexer.devnode.transactions import Transaction


class Log(NamedTuple):
    """One event; ``mask`` is the bloom of its address and topics."""

    address: bytes
    topics: tuple[bytes, ...]
    data: bytes
    mask: int


class Receipt(NamedTuple):
    """What running one transaction left; gas in units."""

    status: int
    gas_used: int
    cumulative_gas_used: int
    logs: tuple[Log, ...]
    bloom: bytes
    contract_address: bytes | None
    blob_gas_used: int


def bloom_bytes(logs: tuple[Log, ...]) -> bytes:
    """Return the 256 bytes of the logs' bloom."""
    mask = 0
    for log in logs:
        mask |= log.mask
    return mask.to_bytes(256, "big")


def encode(tx_type: int, receipt: Receipt) -> bytes:
    """Return the EIP-2718 encoding the receipts root is made of.

    Source: EIP-658 and EIP-2718.
    """
    logs = b"".join([_encode_log(log) for log in receipt.logs])
    body = rlp.array(
        (b"\x01" if receipt.status else b"\x80")
        + rlp.number(receipt.cumulative_gas_used)
        + b"\xb9\x01\x00"
        + receipt.bloom
        + rlp.array(logs)
    )
    return body if tx_type == 0 else bytes((tx_type,)) + body


def _encode_log(log: Log) -> bytes:
    topics = b"".join([b"\xa0" + topic for topic in log.topics])
    return rlp.array(b"\x94" + log.address + rlp.array(topics) + rlp.text(log.data))


class Place(NamedTuple):
    """The block that receipts and logs name; hex with 0x, prices in wei.

    ``timestamp`` is ``None`` where logs carry no ``blockTimestamp``.
    """

    number: str
    block_hash: str
    timestamp: str | None
    blob_gas_price: int
    base_fee: int


def render(
    tx: Transaction,
    tx_hash: str,
    index: int,
    receipt: Receipt,
    first_log: int,
    at: Place,
) -> str:
    """Return the JSON object of a receipt, as geth 1.16 shapes it.

    ``first_log`` is the index in the block of the receipt's first log.
    """
    shared = (
        f'"blockNumber":"{at.number}","transactionHash":"{tx_hash}",'
        f'"transactionIndex":"{index:#x}","blockHash":"{at.block_hash}",'
    )
    if at.timestamp is not None:
        shared += f'"blockTimestamp":"{at.timestamp}",'
    logs = ",".join(
        [
            _render_log(log, position, shared)
            for position, log in enumerate(receipt.logs, first_log)
        ]
    )
    blob = ""
    if tx.type == 3:
        blob = (
            f'"blobGasPrice":"{at.blob_gas_price:#x}",'
            f'"blobGasUsed":"{receipt.blob_gas_used:#x}",'
        )
    created = receipt.contract_address
    contract = "null" if created is None else f'"0x{created.hex()}"'
    to = "null" if tx.to is None else f'"0x{tx.to.hex()}"'
    return (
        f'{{{blob}"blockHash":"{at.block_hash}","blockNumber":"{at.number}",'
        f'"contractAddress":{contract},'
        f'"cumulativeGasUsed":"{receipt.cumulative_gas_used:#x}",'
        f'"effectiveGasPrice":"{tx.price(at.base_fee):#x}",'
        f'"from":"0x{tx.sender.hex()}","gasUsed":"{receipt.gas_used:#x}",'
        f'"logs":[{logs}],"logsBloom":"0x{receipt.bloom.hex()}",'
        f'"status":"{receipt.status:#x}","to":{to},"transactionHash":"{tx_hash}",'
        f'"transactionIndex":"{index:#x}","type":"{tx.type:#x}"}}'
    )


def _render_log(log: Log, position: int, shared: str) -> str:
    topics = ",".join([f'"0x{topic.hex()}"' for topic in log.topics])
    return (
        f'{{"address":"0x{log.address.hex()}","topics":[{topics}],'
        f'"data":"0x{log.data.hex()}",{shared}"logIndex":"{position:#x}",'
        '"removed":false}'
    )
