"""The lists inside transactions, from the JSON the node gave.

Sources: EIP-2930, EIP-7702.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from indexer.chain.verify.extra import hex_data, number
from indexer.chain.verify.rlp import EMPTY_ARRAY, array, text
from indexer.chain.verify.rlp import fresh_number as encode
from indexer.chain.verify.unprovable import Unprovable

T = TypeVar("T")


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
    """Encode an access list; one that a node leaves out is empty.

    Raises Unprovable for JSON of another form, ValueError for what is no hex in it.
    """
    if value is None or value == "[]":
        return EMPTY_ARRAY
    items = _decoded(_ACCESSES, value, "access list")
    return array(b"".join([_access(item) for item in items]))


def authorization_list(value: str | None) -> bytes:
    """Encode an authorization list. Raises as :func:`access_list`."""
    if value is None or value == "[]":
        return EMPTY_ARRAY
    items = _decoded(_AUTHORIZATIONS, value, "authorization list")
    return array(b"".join([_authorization(item) for item in items]))


def hash_list(hashes: Iterable[bytes]) -> bytes:
    """Encode a list of hashes."""
    return array(b"".join(map(text, hashes)))


def _decoded(decoder: msgspec.json.Decoder[list[T]], value: str, what: str) -> list[T]:
    try:
        return decoder.decode(value)
    except msgspec.ValidationError as error:
        raise Unprovable(f"its {what} has another form: {error}") from None


def _access(item: _Access) -> bytes:
    keys = hash_list(map(hex_data, item.storageKeys or ()))
    return array(text(hex_data(item.address)) + keys)


def _authorization(item: _Authorization) -> bytes:
    parity = item.v if item.yParity is None else item.yParity
    if parity is None:
        raise Unprovable("an authorization has neither yParity nor v")
    return array(
        encode(number(item.chainId))
        + text(hex_data(item.address))
        + encode(number(item.nonce))
        + encode(number(parity))
        + encode(number(item.r))
        + encode(number(item.s))
    )
