"""Receipts and their logs as the chain commits to them.

Sources: yellow paper 4.3.1; EIP-658 (status), EIP-2718 (types), op-geth's deposit
receipts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from indexer.chain.verify.bloom import EMPTY_BLOOM
from indexer.chain.verify.extra import Fields, fields_of, quantity
from indexer.chain.verify.rlp import (
    ARRAY_HEADS,
    EMPTY,
    EMPTY_ARRAY,
    OF_ADDRESS,
    OF_BLOOM,
    OF_HASH,
    TEXT_HEADS,
    array,
    fresh_number,
    text,
)
from indexer.chain.verify.unprovable import Unprovable
from indexer.rows import LogRow, ReceiptRow

DEPOSIT: Final = 0x7E

_NO_LOGS: Final = OF_BLOOM + EMPTY_BLOOM + EMPTY_ARRAY
_STATUS: Final = {0: EMPTY, 1: b"\x01"}


class _Frame(NamedTuple):
    """What stands around the address, the topics and the data of a log."""

    before_address: bytes
    before_topics: bytes
    before_data: bytes


class _Frames(dict[int, _Frame]):
    """Frames by 8 times the length of the data, longer than 1, plus the topics."""

    def __missing__(self, shape: int) -> _Frame:
        length, topics = divmod(shape, 8)
        topics_head = ARRAY_HEADS[33 * topics]
        data_head = TEXT_HEADS[length]
        size = 21 + len(topics_head) + 33 * topics + len(data_head) + length
        if topics:
            topics_head += OF_HASH
        frame = _Frame(ARRAY_HEADS[size] + OF_ADDRESS, topics_head, data_head)
        # Nearly all logs have less than 1 KB of data, in words of 32 bytes.
        if length <= 1024:
            self[shape] = frame
        return frame


_FRAMES: Final = _Frames()


def encode_logs(logs: Sequence[LogRow]) -> list[bytes]:
    """Encode logs; raises TypeError for one with a gap in its topics."""
    frames = _FRAMES
    joined = b"".join
    joined_topics = OF_HASH.join
    encoded = []
    for log in logs:
        _, _, _, _, address, topic0, topic1, topic2, topic3, data, _ = log
        if topic3 is not None:
            count = 4
        elif topic2 is not None:
            count = 3
        elif topic1 is not None:
            count = 2
        else:
            count = 0 if topic0 is None else 1
        topics = joined_topics(log[5 : 5 + count])  # type: ignore[arg-type]
        length = len(data)
        if length == 1:
            encoded.append(_short_log(address, count, topics, data))
            continue
        before_address, before_topics, before_data = frames[length << 3 | count]
        encoded.append(
            joined((before_address, address, before_topics, topics, before_data, data))
        )
    return encoded


def _short_log(address: bytes, count: int, topics: bytes, data: bytes) -> bytes:
    """Encode a log whose data, one byte, may be its own encoding."""
    listed = array(OF_HASH + topics) if count else EMPTY_ARRAY
    return array(OF_ADDRESS + address + listed + text(data))


def encode_receipt(row: ReceiptRow, bloom: bytes, logs: Sequence[bytes]) -> bytes:
    """Encode a receipt of any type with its encoded logs.

    Types that are not known are taken to have the usual fields, as most have: what
    they give proves something where it is right, and nothing where it is not.
    Raises Unprovable where the node left out a field.
    """
    gas, kind = row.cumulative_gas_used, row.type
    if gas is None:
        raise Unprovable("the node gives no cumulativeGasUsed")
    if logs:
        joined = b"".join(logs)
        listed = b"".join((OF_BLOOM, bloom, ARRAY_HEADS[len(joined)], joined))
    else:
        listed = _NO_LOGS if bloom == EMPTY_BLOOM else OF_BLOOM + bloom + EMPTY_ARRAY
    payload = b"".join((_outcome(row), fresh_number(gas), listed))
    if not kind:
        return ARRAY_HEADS[len(payload)] + payload
    if kind == DEPOSIT:
        payload += _deposit(fields_of(row.extra))
    elif kind > 0x7F:
        raise Unprovable(f"{kind:#x} is no type of EIP-2718")
    return b"".join((bytes((kind,)), ARRAY_HEADS[len(payload)], payload))


def _outcome(row: ReceiptRow) -> bytes:
    """Return the status or, before Byzantium, the state root.

    The root is asked for first: old nodes give a status of zero beside it.
    """
    if row.root:
        return OF_HASH + row.root
    if row.status is None:
        raise Unprovable("the node gives neither status nor root")
    return _STATUS.get(row.status) or fresh_number(row.status)


def _deposit(fields: Fields) -> bytes:
    """Return what Canyon has added; before it the nonce is not in the root."""
    if fields.get("depositReceiptVersion") is None:
        return b""
    return fresh_number(quantity(fields, "depositNonce")) + fresh_number(
        quantity(fields, "depositReceiptVersion")
    )
