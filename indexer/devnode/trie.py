"""The root of the Merkle Patricia trie over a list, keyed by rlp(index).

Source: yellow paper, appendix D; transactions, receipts and withdrawals roots.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from indexer.devnode import rlp
from indexer.devnode.hashing import keccak

EMPTY_ROOT = keccak(b"\x80")


def ordered_root(values: Sequence[bytes]) -> bytes:
    """Return the root of the trie that maps rlp(i) to the i-th value."""
    if not values:
        return EMPTY_ROOT
    count = len(values)
    # rlp(0) is 0x80, so the first value sorts behind those of 1 to 127.
    order = (*range(1, min(count, 128)), 0, *range(128, count))
    return keccak(_node([(_key(index), values[index]) for index in order], 0))


@lru_cache(maxsize=4096)
def _key(index: int) -> bytes:
    """Return the nibbles of rlp(index), one a byte."""
    return bytes(int(digit, 16) for digit in rlp.number(index).hex())


@lru_cache(maxsize=4096)
def _path(nibbles: bytes, leaf: bool) -> bytes:
    """Return the hex-prefix encoding of a path, as an RLP string."""
    flag = 2 if leaf else 0
    if len(nibbles) % 2:
        padded = bytes((flag + 1,)) + nibbles
    else:
        padded = bytes((flag, 0)) + nibbles
    return rlp.text(
        bytes(
            high << 4 | low for high, low in zip(padded[::2], padded[1::2], strict=True)
        )
    )


def _node(items: list[tuple[bytes, bytes]], depth: int) -> bytes:
    """Encode the node under which all items lie, which share ``depth`` nibbles."""
    first = items[0][0]
    if len(items) == 1:
        return rlp.array(_path(first[depth:], True) + rlp.text(items[0][1]))
    last = items[-1][0]
    shared = depth
    # Sorted keys share what the first and the last share; none is a prefix of
    # another, because RLP is prefix-free, so a branch never carries a value.
    while first[shared] == last[shared]:
        shared += 1
    if shared > depth:
        return rlp.array(_path(first[depth:shared], False) + _child(items, shared))
    slots = [b"\x80"] * 17
    start = 0
    count = len(items)
    while start < count:
        nibble = items[start][0][depth]
        end = start + 1
        while end < count and items[end][0][depth] == nibble:
            end += 1
        slots[nibble] = _child(items[start:end], depth + 1)
        start = end
    return rlp.array(b"".join(slots))


def _child(items: list[tuple[bytes, bytes]], depth: int) -> bytes:
    """Return the reference to a node: itself under 32 bytes, else its hash."""
    node = _node(items, depth)
    return node if len(node) < 32 else b"\xa0" + keccak(node)
