"""Whole numbers to PostgreSQL's binary ``numeric``, many at once; pure.

A numeric is digits of base 10,000, two bytes each. Turning 256-bit numbers into
those one by one is most of what encoding a transaction costs, so a column's decimal
digits are laid side by side in one huge integer, and a few multiplications turn all
of them into base 10,000 together (four times as fast).

Source: ``numeric_recv`` and ``numeric.c`` of PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

_NEGATIVE = b"\x40\x00"
_MOST_DIGITS = 20

_head = Struct(">iHhHH").pack

# Length, number of digits, weight, sign and scale, by the number of digits.
_HEADS = [_head(8, 0, 0, 0, 0)] + [
    _head(8 + 2 * count, count, count - 1, 0, 0) for count in range(1, _MOST_DIGITS + 1)
]
_LIMIT = 10 ** (4 * _MOST_DIGITS)
# Nonces, chain ids, prices in test networks: worth remembering, too many for a table.
_SMALL = 1_000_000


def encode_numerics(values: Sequence[int]) -> list[bytes]:
    """Return whole numbers as numeric fields, with their lengths in front.

    Raises OverflowError for a number of more than 80 digits.
    """
    smallest, largest = min(values), max(values)
    if smallest < 0:
        return [
            _negated(field) if value < 0 else field for value, field in _signed(values)
        ]
    if largest < _SMALL:
        return list(map(_small, values))
    distinct = set(values)
    if 2 * len(distinct) > len(values):
        return _encode(values, largest)
    known = dict(zip(distinct, _encode(list(distinct), largest), strict=True))
    return [known[value] for value in values]


def _signed(values: Sequence[int]) -> list[tuple[int, bytes]]:
    return list(zip(values, encode_numerics(list(map(abs, values))), strict=True))


def _negated(field: bytes) -> bytes:
    return field[:8] + _NEGATIVE + field[10:]


@lru_cache(maxsize=65_536)
def _small(value: int) -> bytes:
    return _encode([value], value)[0]


def _encode(values: Sequence[int], largest: int) -> list[bytes]:
    if largest >= _LIMIT:
        raise OverflowError("a number has more than 80 digits")
    texts = list(map(str, values))
    width = -(-len(str(largest)) // 4) * 4
    digits = _base_10000("".join([text.zfill(width) for text in texts]).encode())
    fields = []
    end = 0
    for text, value in zip(texts, values, strict=True):
        end += width // 2
        count = (len(text) + 3) // 4 if value else 0
        fields.append(_HEADS[count] + digits[end - 2 * count : end])
    return fields


def _base_10000(text: bytes) -> bytes:
    """Turn decimal digits, a multiple of four of them, into big-endian 16-bit ones.

    Two neighbours are joined in all places at once: tens and ones in lanes of 16 bit,
    then hundreds in lanes of 32, whose upper halves stay empty.
    """
    size = len(text)
    ones, hundreds = _masks(size)
    number = int.from_bytes(text, "big")
    number = ((number >> 8) & ones) * 10 + (number & ones)
    number = ((number >> 16) & hundreds) * 100 + (number & hundreds)
    lanes = number.to_bytes(size, "big")
    digits = bytearray(size // 2)
    digits[0::2] = lanes[2::4]
    digits[1::2] = lanes[3::4]
    return bytes(digits)


@lru_cache(maxsize=64)
def _masks(size: int) -> tuple[int, int]:
    # The low nibble of an ASCII digit is its value.
    ones = int.from_bytes(b"\x00\x0f" * (size // 2), "big")
    hundreds = int.from_bytes(b"\x00\x00\x00\xff" * (size // 4), "big")
    return ones, hundreds
