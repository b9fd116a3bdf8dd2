"""Rows to PostgreSQL's binary COPY format; pure.

Source: the PostgreSQL manual, COPY, "Binary Format", and the receive functions
``numeric_recv``, ``timestamptz_recv``, ``array_recv`` and ``jsonb_recv``. Written here
because a driver's generic encoding is the largest piece of a backfill's CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from struct import Struct

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
_numeric_head = Struct(">iHhHH").pack
_array_head = Struct(">iiiii").pack

# Lengths that nearly every field has (addresses, hashes, blooms, short data).
_LENGTHS = [_length(size) for size in range(1025)]
# A base-10,000 digit of a numeric as its two bytes, by its four decimal digits.
_DIGITS = {f"{value:04d}": value.to_bytes(2, "big") for value in range(10_000)}

_Encoder = Callable[[object], bytes]


def encode_rows(types: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> bytes:
    """Return rows as COPY data without signature and trailer.

    ``types`` are the names in :data:`ENCODERS`, one a field. A value outside its
    type's range raises struct.error or OverflowError: it was to be refused when it
    was decoded.
    """
    head = len(types).to_bytes(2, "big")
    encoders = [ENCODERS[name] for name in types]
    parts: list[bytes] = []
    append = parts.append
    for row in rows:
        append(head)
        for encoder, value in zip(encoders, row, strict=True):
            append(_NULL if value is None else encoder(value))
    return b"".join(parts)


def encode_numeric(value: int) -> bytes:
    """Return a whole number as a numeric field, with its length in front."""
    if value < 0:
        return _numeric(-value, 0x4000)
    if value < 1_000_000:
        return _small_numeric(value)
    return _numeric(value, 0)


def _numeric(value: int, sign: int) -> bytes:
    text = str(value)
    text = "0" * (-len(text) % 4) + text
    count = len(text) // 4
    digits = b"".join([_DIGITS[text[at : at + 4]] for at in range(0, len(text), 4)])
    return _numeric_head(8 + 2 * count, count, count - 1, sign, 0) + digits


@lru_cache(maxsize=65_536)
def _small_numeric(value: int) -> bytes:
    return _numeric(value, 0) if value else _numeric_head(8, 0, 0, 0, 0)


def _encode_bytea(value: bytes) -> bytes:
    size = len(value)
    return (_LENGTHS[size] if size <= 1024 else _length(size)) + value


def _encode_bytea_array(value: tuple[bytes, ...]) -> bytes:
    if not value:
        return _length(12) + _length(0) + _length(0) + _length(_BYTEA_OID)
    items = b"".join(map(_encode_bytea, value))
    return _array_head(20 + len(items), 1, 0, _BYTEA_OID, len(value)) + (
        _length(1) + items
    )


def _encode_jsonb(value: str) -> bytes:
    data = value.encode()
    return _length(len(data) + 1) + b"\x01" + data


def _encode_timestamptz(value: datetime) -> bytes:
    return _int8(8, (value - _EPOCH) // _MICROSECOND)


# Each takes the value of a row's field and returns its length and bytes. The values
# are typed by the row; the mapping cannot say so.
ENCODERS: dict[str, _Encoder] = {
    "int2": lambda value: _int2(2, value),
    "int4": lambda value: _int4(4, value),
    "int8": lambda value: _int8(8, value),
    "numeric": encode_numeric,  # type: ignore[dict-item]
    "bytea": _encode_bytea,  # type: ignore[dict-item]
    "bytea[]": _encode_bytea_array,  # type: ignore[dict-item]
    "jsonb": _encode_jsonb,  # type: ignore[dict-item]
    "timestamptz": _encode_timestamptz,  # type: ignore[dict-item]
}
