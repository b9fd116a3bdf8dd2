"""The hash of a header, of every fork: which fields are there says which it is.

Sources: yellow paper 4.4.1; EIP-1559, 4895, 4844, 4788, 7685, 7928, 7843;
OpenEthereum's AuRa seal; coreth's header.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

from indexer.chain.verify.extra import (
    Fields,
    data,
    fields_of,
    hex_data,
    quantity,
)
from indexer.chain.verify.keccak import keccak
from indexer.chain.verify.rlp import (
    ARRAY_HEADS,
    EMPTY,
    NUMBERS,
    OF_ADDRESS,
    OF_BLOOM,
    OF_HASH,
    fresh_number,
    text,
)
from indexer.chain.verify.unprovable import Unprovable
from indexer.rows import BlockRow

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def header_hash(block: BlockRow) -> bytes:
    """Return the hash of a block's header.

    Raises Unprovable where the node left out a field that every header has, and
    ValueError for values that no header can hold.
    """
    fields = fields_of(block.extra)
    payload = b"".join(
        (
            OF_HASH,
            block.parent_hash,
            OF_HASH,
            _needed(block.sha3_uncles, "sha3Uncles"),
            OF_ADDRESS,
            _needed(block.miner, "miner"),
            OF_HASH,
            _needed(block.state_root, "stateRoot"),
            OF_HASH,
            _needed(block.transactions_root, "transactionsRoot"),
            OF_HASH,
            _needed(block.receipts_root, "receiptsRoot"),
            OF_BLOOM,
            _needed(block.logs_bloom, "logsBloom"),
            NUMBERS[_needed(block.difficulty, "difficulty")],
            fresh_number(block.number),
            NUMBERS[_needed(block.gas_limit, "gasLimit")],
            fresh_number(_needed(block.gas_used, "gasUsed")),
            fresh_number(_seconds(block, fields)),
            text(_needed(block.extra_data, "extraData")),
            _seal(block, fields),
            *_optional(_trailing(block, fields)),
        )
    )
    return keccak(ARRAY_HEADS[len(payload)] + payload)


def _needed(value: T | None, name: str) -> T:
    if value is None:
        raise Unprovable(f"the node gives no {name}")
    return value


def _seconds(block: BlockRow, fields: Fields) -> int:
    time = block.timestamp
    if time is None:
        return quantity(fields, "timestamp")
    since = time - _EPOCH
    if since.microseconds:
        raise ValueError(f"its time {time.isoformat()} is not a whole second")
    return since.days * 86_400 + since.seconds


def _seal(block: BlockRow, fields: Fields) -> bytes:
    """Return what proves the work or the right to make the block, encoded."""
    if block.mix_hash is not None and block.nonce is not None:
        return b"".join((OF_HASH, block.mix_hash, b"\x88", block.nonce))
    if "signature" in fields:
        step = quantity(fields, "step")
        return fresh_number(step) + text(data(fields, "signature"))
    seal = fields.get("sealFields")
    if isinstance(seal, list):
        return b"".join(map(hex_data, map(str, seal)))
    raise Unprovable("the node gives neither mixHash and nonce nor another seal")


def _trailing(block: BlockRow, fields: Fields) -> Sequence[int | bytes | None]:
    """Return what forks have appended to the header, ``None`` where absent."""
    _check_blobs(block)
    since_london = (
        block.base_fee_per_gas,
        block.withdrawals_root,
        block.blob_gas_used,
        block.excess_blob_gas,
        block.parent_beacon_block_root,
        block.requests_hash,
    )
    if not fields:
        return since_london
    if "extDataHash" in fields:
        return (
            data(fields, "extDataHash"),
            block.base_fee_per_gas,
            _quantity_or_none(fields, "extDataGasUsed"),
            _quantity_or_none(fields, "blockGasCost"),
            block.blob_gas_used,
            block.excess_blob_gas,
            block.parent_beacon_block_root,
        )
    name = "blockAccessListHash"
    return (
        *since_london,
        None if fields.get(name) is None else data(fields, name),
        _quantity_or_none(fields, "slotNumber"),
    )


def _check_blobs(block: BlockRow) -> None:
    """Have both blob fields or neither.

    Inside a header an absent number is encoded as zero is, so that one which the node
    left out would prove and be stored as NULL. Cancun has brought the three together.
    """
    if block.parent_beacon_block_root is not None or block.blob_gas_used is not None:
        _needed(block.excess_blob_gas, "excessBlobGas")
    if block.parent_beacon_block_root is not None or block.excess_blob_gas is not None:
        _needed(block.blob_gas_used, "blobGasUsed")


def _quantity_or_none(fields: Fields, name: str) -> int | None:
    return None if fields.get(name) is None else quantity(fields, name)


def _optional(fields: Sequence[int | bytes | None]) -> list[bytes]:
    """Encode optional fields: those after the last one that is there are left out."""
    last = len(fields)
    while last and fields[last - 1] is None:
        last -= 1
    return [_item(field) for field in fields[:last]]


def _item(field: int | bytes | None) -> bytes:
    if field is None:
        return EMPTY
    return NUMBERS[field] if isinstance(field, int) else text(field)
