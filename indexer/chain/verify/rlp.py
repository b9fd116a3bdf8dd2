"""RLP encoding, laid out for joining: a head is looked up, never computed twice.

Source: yellow paper, appendix B. Nothing here decodes.
"""

from __future__ import annotations

from typing import Final

# Numbers, and heads of longer items, that are kept at most: about 2 MB a table.
_KEPT: Final = 16_384

EMPTY: Final = b"\x80"
EMPTY_ARRAY: Final = b"\xc0"
# Heads of what always has one length: addresses, hashes, blooms.
OF_ADDRESS: Final = b"\x94"
OF_HASH: Final = b"\xa0"
OF_BLOOM: Final = b"\xb9\x01\x00"


def _big_endian(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) >> 3, "big")


class _Heads(dict[int, bytes]):
    """The head of a string or list by the length of what follows it."""

    def __init__(self, offset: int) -> None:
        super().__init__()
        self._offset = offset

    def __missing__(self, length: int) -> bytes:
        if length < 56:
            head = bytes((self._offset + length,))
        else:
            size = _big_endian(length)
            head = bytes((self._offset + 55 + len(size),)) + size
        if len(self) < _KEPT:
            self[length] = head
        return head


class _Numbers(dict[int, bytes]):
    """Encoded numbers; gas limits, fees and chain ids come again and again."""

    def __missing__(self, value: int) -> bytes:
        encoded = fresh_number(value)
        if len(self) >= _KEPT:
            self.clear()
        self[value] = encoded
        return encoded


TEXT_HEADS: Final = _Heads(0x80)
ARRAY_HEADS: Final = _Heads(0xC0)


def fresh_number(value: int) -> bytes:
    """Encode a number that seldom comes twice.

    Raises ValueError for a negative one, which no chain has.
    """
    if value < 0:
        raise ValueError(f"{value} is negative")
    if value < 0x80:
        return bytes((value,)) if value else EMPTY
    data = _big_endian(value)
    return TEXT_HEADS[len(data)] + data


# Subscript it with a number to have that encoded.
NUMBERS: Final = _Numbers()


def word(value: int) -> bytes:
    """Encode a number that nearly always fills 32 bytes, as signatures do."""
    if value >> 248 and value < 1 << 256:
        return OF_HASH + value.to_bytes(32, "big")
    return fresh_number(value)


def text_head(data: bytes) -> bytes:
    """Return what stands before a string; nothing before a byte below 0x80."""
    if len(data) == 1 and data[0] < 0x80:
        return b""
    return TEXT_HEADS[len(data)]


def text(data: bytes) -> bytes:
    """Encode a string."""
    return text_head(data) + data


def array(payload: bytes) -> bytes:
    """Encode a list whose items are already encoded and joined."""
    return ARRAY_HEADS[len(payload)] + payload
