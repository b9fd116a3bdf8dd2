"""The root of the Merkle Patricia trie over a list, keyed by rlp(index).

How such a trie hangs together depends only on how long the list is. So the shape
is worked out once a length, as a short program over the encoded values, and run
bottom-up: no general trie, no keys, no nibbles in the work of a block.

Source: yellow paper, appendix D.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple

from indexer.chain.verify.keccak import keccak, keccaks
from indexer.chain.verify.rlp import (
    ARRAY_HEADS,
    EMPTY,
    OF_HASH,
    TEXT_HEADS,
    array,
    fresh_number,
    text,
    text_head,
)

# The root of a list without items.
EMPTY_ROOT: Final = keccak(EMPTY)

# Shapes kept at most; one of 200 values takes 6 KB.
_SHAPES: Final = 1024

# Nodes shorter than this stand in their parent instead of their hash.
_INLINE: Final = 32

# The path of a leaf that has no nibbles left, as nearly all have.
_NO_PATH: Final = b"\x20"
# A longer value has a leaf that is never inlined.
_LONG: Final = _INLINE


class _Node(NamedTuple):
    """An inner node: a path, empty for a branch, and what it joins."""

    path: bytes
    children: Callable[[Sequence[bytes]], tuple[bytes, ...]]


class _Shape(NamedTuple):
    """How the trie over ``n`` values hangs together.

    ``paths`` are those of leaves whose path has nibbles left, by index. ``nodes``
    stand below their parents; child ``i`` is value ``i``, ``n`` an empty slot,
    ``n + 1`` nothing at all, ``n + 2 + j`` the node ``j``.
    """

    paths: tuple[tuple[int, bytes], ...]
    nodes: tuple[_Node, ...]


def ordered_root(values: list[bytes]) -> bytes:
    """Return the root of the trie that maps rlp(i) to the i-th value."""
    if not values:
        return EMPTY_ROOT
    if len(values) == 1:
        return keccak(_leaf(_hex_prefix(_nibbles(0), leaf=True), values[0]))
    shape = _shape(len(values))
    references = _leaf_references(values)
    for index, path in shape.paths:
        references[index] = _reference(_leaf(path, values[index]))
    references += (EMPTY, b"")
    node = b""
    for path, children in shape.nodes:
        node = array(path + b"".join(children(references)))
        references.append(_reference(node))
    return keccak(node)


class _LeafHeads(dict[int, bytes]):
    """What stands before a value of a length over 1 in a leaf without a path."""

    def __missing__(self, length: int) -> bytes:
        head = _NO_PATH + TEXT_HEADS[length]
        head = ARRAY_HEADS[len(head) + length] + head
        # As many lengths as transactions and receipts commonly have.
        if length < 8192:
            self[length] = head
        return head


_LEAF_HEADS: Final = _LeafHeads()


def _leaf_references(values: list[bytes]) -> list[bytes]:
    if min(map(len, values)) <= _LONG:
        return [_reference(_leaf(_NO_PATH, value)) for value in values]
    heads = _LEAF_HEADS
    digests = keccaks([heads[len(value)] + value for value in values])
    return [OF_HASH + digest for digest in digests]


def _leaf(path: bytes, value: bytes) -> bytes:
    return array(path + text_head(value) + value)


def _reference(node: bytes) -> bytes:
    return node if len(node) < _INLINE else OF_HASH + keccak(node)


def _nibbles(index: int) -> bytes:
    """Return the nibbles of rlp(index), one a byte."""
    return bytes(int(digit, 16) for digit in fresh_number(index).hex())


def _hex_prefix(nibbles: bytes, *, leaf: bool) -> bytes:
    """Return a path in hex-prefix encoding, as an RLP string."""
    flag = 2 if leaf else 0
    odd = len(nibbles) % 2
    whole = bytes((flag + 1,)) + nibbles if odd else bytes((flag, 0)) + nibbles
    return text(bytes.fromhex("".join(f"{nibble:x}" for nibble in whole)))


@lru_cache(maxsize=_SHAPES)
def _shape(count: int) -> _Shape:
    builder = _Builder(count)
    builder.build(sorted((_nibbles(index), index) for index in range(count)), 0)
    return _Shape(tuple(sorted(builder.paths)), tuple(builder.nodes))


class _Builder:
    def __init__(self, count: int) -> None:
        self._count = count
        self.paths: list[tuple[int, bytes]] = []
        self.nodes: list[_Node] = []

    def build(self, keys: list[tuple[bytes, int]], depth: int) -> int:
        """Add the nodes above some sorted keys; return the number of the top one.

        All keys share ``depth`` nibbles. RLP is prefix-free, so no key ends where
        another goes on, and no branch has a value of its own.
        """
        first, index = keys[0]
        if len(keys) == 1:
            if len(first) > depth:
                path = _hex_prefix(first[depth:], leaf=True)
                self.paths.append((index, path))
            return index
        last = keys[-1][0]
        shared = depth
        while first[shared] == last[shared]:
            shared += 1
        empty = self._count
        slots = [empty] * 17
        groups: dict[int, list[tuple[bytes, int]]] = {}
        for key in keys:
            groups.setdefault(key[0][shared], []).append(key)
        for nibble, group in groups.items():
            slots[nibble] = self.build(group, shared + 1)
        top = self._add(b"", slots)
        if shared > depth:
            path = _hex_prefix(first[depth:shared], leaf=False)
            top = self._add(path, [top, empty + 1])
        return top

    def _add(self, path: bytes, children: Sequence[int]) -> int:
        getter: Any = itemgetter(*children)
        self.nodes.append(_Node(path, getter))
        return self._count + 1 + len(self.nodes)
