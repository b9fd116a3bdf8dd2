"""Transactions as the chain commits to them: types 0 to 4 of EIP-2718.

Sources: yellow paper 4.3; EIP-155, 2718, 2930, 1559, 4844, 7702.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, cast

from indexer.chain.verify.lists import access_list, authorization_list, hash_list
from indexer.chain.verify.rlp import (
    ARRAY_HEADS,
    EMPTY,
    EMPTY_ARRAY,
    NUMBERS,
    OF_ADDRESS,
    fresh_number,
    text_head,
    word,
)
from indexer.chain.verify.unprovable import Unprovable
from indexer.rows import TransactionRow


class Whole(Protocol):
    """A TransactionRow that has every field its type needs."""

    type: int | None
    from_address: bytes
    to_address: bytes | None
    nonce: int
    value: int
    gas: int
    gas_price: int
    max_fee_per_gas: int
    max_priority_fee_per_gas: int
    max_fee_per_blob_gas: int
    chain_id: int
    v: int | None
    r: int
    s: int
    y_parity: int | None
    input: bytes
    blob_versioned_hashes: tuple[bytes, ...]
    access_list: str | None
    authorization_list: str | None
    extra: str | None


# Encodes a transaction as the trie holds it. Raises TypeError where a field it needs
# is None after all, ValueError for a value no transaction can hold, Unprovable where
# ``extra`` lacks a field.
Encoder = Callable[[Whole], bytes]


def legacy(row: Whole) -> bytes:
    """Encode a transaction of type 0, protected (EIP-155) or not: v tells."""
    v: int | None = row.v
    chain_id: int | None = row.chain_id
    if v is None:
        raise TypeError("v is None")
    if v >= 35 and chain_id not in (None, (v - 35) >> 1):
        raise ValueError(f"its v is {v}, but its chainId {chain_id}")
    payload = b"".join(
        (
            fresh_number(row.nonce),
            fresh_number(row.gas_price),
            *_call(row),
            NUMBERS[v],
            word(row.r),
            word(row.s),
        )
    )
    return ARRAY_HEADS[len(payload)] + payload


def with_access_list(row: Whole) -> bytes:
    """Encode a transaction of type 1."""
    return typed(
        row,
        b"\x01",
        (
            fresh_number(row.gas_price),
            *_call(row),
            access_list(row.access_list),
        ),
    )


def dynamic_fee(row: Whole) -> bytes:
    """Encode a transaction of type 2."""
    return typed(row, b"\x02", dynamic_fee_fields(row))


def blob(row: Whole) -> bytes:
    """Encode a transaction of type 3, as blocks hold it: without its blobs."""
    return typed(
        row,
        b"\x03",
        (
            *dynamic_fee_fields(row),
            NUMBERS[row.max_fee_per_blob_gas],
            hash_list(row.blob_versioned_hashes),
        ),
    )


def set_code(row: Whole) -> bytes:
    """Encode a transaction of type 4."""
    return typed(
        row,
        b"\x04",
        (*dynamic_fee_fields(row), authorization_list(row.authorization_list)),
    )


def typed(row: Whole, kind: bytes, fields: tuple[bytes, ...]) -> bytes:
    """Encode a transaction of a type whose own ``fields`` stand in the middle."""
    payload = b"".join(
        (
            NUMBERS[row.chain_id],
            fresh_number(row.nonce),
            *fields,
            NUMBERS[_parity(row)],
            word(row.r),
            word(row.s),
        )
    )
    return b"".join((kind, ARRAY_HEADS[len(payload)], payload))


def _parity(row: Whole) -> int:
    """Return v, which yParity repeats; nodes give one of them or both."""
    v, parity = row.v, row.y_parity
    if v is None:
        if parity is None:
            raise TypeError("v and y_parity are None")
        return parity
    if parity is not None and parity != v:
        raise ValueError(f"its v is {v}, but its yParity {parity}")
    return v


def dynamic_fee_fields(row: Whole) -> tuple[bytes, ...]:
    """Encode what EIP-1559 and its successors have between nonce and signature."""
    listed = row.access_list
    return (
        NUMBERS[row.max_priority_fee_per_gas],
        NUMBERS[row.max_fee_per_gas],
        *_call(row),
        EMPTY_ARRAY if listed is None or listed == "[]" else access_list(listed),
    )


def _call(row: Whole) -> tuple[bytes, ...]:
    to, data = row.to_address, row.input
    return (
        NUMBERS[row.gas],
        EMPTY if to is None else OF_ADDRESS + to,
        NUMBERS[row.value],
        text_head(data),
        data,
    )


BLOB: Final = 3

# A transaction without a type is from before there were types.
ETHEREUM: Final[Mapping[int | None, Encoder]] = {
    None: legacy,
    0: legacy,
    1: with_access_list,
    2: dynamic_fee,
    BLOB: blob,
    4: set_code,
}

# What encodings need, to name what a node left out.
_NEEDED: Final = (
    "from_address",
    "gas",
    "value",
    "input",
    "nonce",
    "v",
    "r",
    "s",
    "gas_price",
    "chain_id",
    "max_fee_per_gas",
    "max_priority_fee_per_gas",
    "max_fee_per_blob_gas",
    "blob_versioned_hashes",
)


def encode_transaction(
    row: TransactionRow, encoders: Mapping[int | None, Encoder]
) -> bytes:
    """Encode a transaction, or raise Unprovable with the reason."""
    encoder = encoders.get(row.type)
    if encoder is None:
        raise Unprovable(f"the encoding of type {row.type:#x} is not known")
    try:
        return encoder(cast(Whole, row))
    except TypeError:
        missing = [name for name in _NEEDED if getattr(row, name) is None]
        if not missing:
            raise
        raise Unprovable(f"it lacks one of {', '.join(missing)}") from None
