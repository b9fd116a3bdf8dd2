"""The lists inside transactions, from the JSON the node gave.

Sources: EIP-2930, EIP-7702.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from indexer.chain.verify.extra import hex_data, number
from indexer.chain.verify.rlp import EMPTY_ARRAY, array, text
from indexer.chain.verify.rlp import fresh_number as encode


class _Access(Struct):
    address: str
    storageKeys: list[str] | None = None


class _Authorization(Struct):
    chainId: str
    address: str
    nonce: str
    r: str
    s: str
    yParity: str | None = None
    v: str | None = None


_ACCESSES: Final = msgspec.json.Decoder(list[_Access])
_AUTHORIZATIONS: Final = msgspec.json.Decoder(list[_Authorization])


def access_list(value: str | None) -> bytes:
    """Encode an access list; raises ValueError for what is none.

    A node that gives no list has an empty one.
    """
    if value is None or value == "[]":
        return EMPTY_ARRAY
    return array(b"".join([_access(item) for item in _ACCESSES.decode(value)]))


def authorization_list(value: str | None) -> bytes:
    """Encode an authorization list; raises ValueError for what is none."""
    if value is None or value == "[]":
        return EMPTY_ARRAY
    items = _AUTHORIZATIONS.decode(value)
    return array(b"".join([_authorization(item) for item in items]))


def hash_list(hashes: Iterable[bytes]) -> bytes:
    """Encode a list of hashes."""
    return array(b"".join(map(text, hashes)))


def _access(item: _Access) -> bytes:
    keys = hash_list(map(hex_data, item.storageKeys or ()))
    return array(text(hex_data(item.address)) + keys)


def _authorization(item: _Authorization) -> bytes:
    parity = item.v if item.yParity is None else item.yParity
    if parity is None:
        raise ValueError("an authorization has neither yParity nor v")
    return array(
        encode(number(item.chainId))
        + text(hex_data(item.address))
        + encode(number(item.nonce))
        + encode(number(parity))
        + encode(number(item.r))
        + encode(number(item.s))
    )
