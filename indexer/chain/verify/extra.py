"""Read the fields a row keeps as JSON text, as the node gave them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from indexer.chain.verify.unprovable import Unprovable

Fields = Mapping[str, Any]

_OBJECT = msgspec.json.Decoder(dict[str, Any])


def fields_of(extra: str | None) -> Fields:
    """Return the fields by their JSON names; raises ValueError for no object."""
    return {} if extra is None else _OBJECT.decode(extra)


def data(fields: Fields, name: str) -> bytes:
    """Return the bytes of a field; raises Unprovable where there are none."""
    value = fields.get(name)
    if not isinstance(value, str):
        raise Unprovable(f"the node gives no {name}")
    return hex_data(value)


def quantity(fields: Fields, name: str) -> int:
    """Return the number of a field; raises Unprovable where there is none."""
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Unprovable(f"the node gives no {name}")
    return number(value)


def hex_data(value: str) -> bytes:
    """Return the bytes that hex digits say, with or without 0x."""
    return bytes.fromhex(value.removeprefix("0x"))


def number(value: str | int) -> int:
    """Return a number that may be hexadecimal, decimal or no text at all."""
    if isinstance(value, int):
        return value
    return int(value, 16 if value.startswith("0x") else 10)
