"""Rows to PostgreSQL's binary COPY format, a column at a time; pure.

Source: the PostgreSQL manual, COPY, "Binary Format", and the receive functions
``numeric_recv``, ``timestamptz_recv``, ``array_recv`` and ``jsonb_recv``. Written here
because a driver's generic encoding is the largest piece of a backfill's CPU, and by
the column because a call a value costs more than what it does: most columns of a
chunk hold one value, few values, or values of one length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from struct import Struct
from typing import Any, TypeAlias

from indexer.store.numerics import encode_numerics

SIGNATURE = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
TRAILER = b"\xff\xff"

_NULL = b"\xff\xff\xff\xff"
_BYTEA_OID = 17
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_int2 = Struct(">ih").pack
_int4 = Struct(">ii").pack
_int8 = Struct(">iq").pack
_length = Struct(">i").pack
_array_head = Struct(">iiiii").pack

# Lengths that nearly every field has (addresses, hashes, blooms, short data).
_LENGTHS = [_length(size) for size in range(1025)]

# The fields of a column, or parts of each: bytes are the same in every row.
_Part: TypeAlias = bytes | Sequence[bytes]
_Column: TypeAlias = Sequence[Any]


def encode_rows(types: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> bytes:
    """Return rows as COPY data without signature and trailer.

    ``types`` are the names in :data:`ENCODERS`, one a field. A value outside its
    type's range raises struct.error or OverflowError: it was to be refused when it
    was decoded.
    """
    if not rows:
        return b""
    parts: list[_Part] = [len(types).to_bytes(2, "big")]
    for name, column in zip(types, zip(*rows, strict=True), strict=True):
        parts.extend(_encode_column(ENCODERS[name], column))
    return _interleave(parts, len(rows))


def _encode_column(
    encoder: Callable[[_Column], list[_Part]], column: _Column
) -> list[_Part]:
    first = column[0]
    if column.count(first) == len(column):
        return [_NULL] if first is None else [_whole(encoder((first,)))]
    # Data is what most nulls are in (topics), so it knows them itself.
    if encoder is _encode_bytea or None not in column:
        return encoder(column)
    return [_around_null(encoder, column)]


def _whole(parts: Iterable[_Part]) -> bytes:
    """Return the only row's field."""
    return b"".join(part if isinstance(part, bytes) else part[0] for part in parts)


def _around_null(
    encoder: Callable[[_Column], list[_Part]], column: _Column
) -> list[bytes]:
    there = [value for value in column if value is not None]
    parts = encoder(there)
    if len(parts) == 1 and not isinstance(parts[0], bytes):
        fields = iter(parts[0])
    else:
        fields = map(b"".join, zip(*_streams(parts, len(there)), strict=False))
    return [_NULL if value is None else next(fields) for value in column]


def _interleave(parts: Iterable[_Part], count: int) -> bytes:
    merged: list[_Part] = []
    for part in parts:
        if merged and isinstance(part, bytes) and isinstance(merged[-1], bytes):
            merged[-1] += part
        else:
            merged.append(part)
    if len(merged) == 1 and isinstance(merged[0], bytes):
        return merged[0] * count
    return b"".join(chain.from_iterable(zip(*_streams(merged, count), strict=False)))


def _streams(parts: Iterable[_Part], count: int) -> list[Iterable[bytes]]:
    return [repeat(part, count) if isinstance(part, bytes) else part for part in parts]


def _by_value(encode: Callable[[Any], bytes]) -> Callable[[_Column], list[_Part]]:
    """Encode each distinct value once, where there are much fewer than rows."""

    def encoder(column: _Column) -> list[_Part]:
        distinct = set(column)
        if 2 * len(distinct) > len(column):
            return [list(map(encode, column))]
        known = {value: encode(value) for value in distinct}
        return [[known[value] for value in column]]

    return encoder


def _encode_each(encode: Callable[[Any], bytes]) -> Callable[[_Column], list[_Part]]:
    return lambda column: [list(map(encode, column))]


def _encode_bytea(column: _Column) -> list[_Part]:
    if None in column:
        lengths = [_NULL if value is None else _length_of(value) for value in column]
        return [lengths, [value or b"" for value in column]]
    sizes = list(map(len, column))
    largest = max(sizes)
    if min(sizes) == largest:
        return [_length(largest), column]
    if largest <= 1024:
        return [[_LENGTHS[size] for size in sizes], column]
    return [list(map(_length, sizes)), column]


def _length_of(value: bytes) -> bytes:
    size = len(value)
    return _LENGTHS[size] if size <= 1024 else _length(size)


def _encode_bytea_array(value: tuple[bytes, ...]) -> bytes:
    if not value:
        return _length(12) + _length(0) + _length(0) + _length(_BYTEA_OID)
    items = b"".join([_length(len(item)) + item for item in value])
    return _array_head(20 + len(items), 1, 0, _BYTEA_OID, len(value)) + (
        _length(1) + items
    )


def _encode_jsonb(value: str) -> bytes:
    data = value.encode()
    return _length(len(data) + 1) + b"\x01" + data


def _encode_timestamptz(value: datetime) -> bytes:
    return _int8(8, (value - _EPOCH) // _MICROSECOND)


# Each takes a column without nulls and returns, part by part, its fields: their
# lengths and bytes. The values are typed by the row; the mapping cannot say so.
ENCODERS: dict[str, Callable[[_Column], list[_Part]]] = {
    "int2": _by_value(lambda value: _int2(2, value)),
    "int4": _by_value(lambda value: _int4(4, value)),
    "int8": _by_value(lambda value: _int8(8, value)),
    "numeric": lambda column: [encode_numerics(column)],
    "bytea": _encode_bytea,
    "bytea[]": _encode_each(_encode_bytea_array),
    "jsonb": _encode_each(_encode_jsonb),
    "timestamptz": _by_value(_encode_timestamptz),
}
