"""RLP encoding, as little of it as blocks need.

Written apart from the decoder's own encoder on purpose: what proves a chain must
not share code with what makes it.
"""

from __future__ import annotations

# Single bytes and the prefixes of short strings and lists, made once: nearly all
# items of a block are one of these.
_BYTE = tuple(bytes((value,)) for value in range(256))
_TEXT = (*_BYTE[0x80:0xB8], *(b"\xb8" + _BYTE[length] for length in range(56, 256)))
_LIST = (*_BYTE[0xC0:0xF8], *(b"\xf8" + _BYTE[length] for length in range(56, 256)))


def text(value: bytes) -> bytes:
    """Encode a byte string."""
    length = len(value)
    if length == 1 and value[0] < 0x80:
        return value
    if length < 256:
        return _TEXT[length] + value
    size = length.to_bytes((length.bit_length() + 7) >> 3, "big")
    return _BYTE[0xB7 + len(size)] + size + value


def number(value: int) -> bytes:
    """Encode a number that is not negative, big-endian without leading zeros."""
    if value < 0x80:
        return _BYTE[value] if value else b"\x80"
    length = (value.bit_length() + 7) >> 3
    return _TEXT[length] + value.to_bytes(length, "big")


def array(payload: bytes) -> bytes:
    """Encode a list whose items are already encoded and joined."""
    length = len(payload)
    if length < 256:
        return _LIST[length] + payload
    size = length.to_bytes((length.bit_length() + 7) >> 3, "big")
    return _BYTE[0xF7 + len(size)] + size + payload


def array_size(length: int) -> int:
    """Return the size of an encoded list with a payload of ``length`` bytes."""
    if length < 56:
        return 1 + length
    return 1 + ((length.bit_length() + 7) >> 3) + length
