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
    if isinstance(value, str):
        return number(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise Unprovable(f"the node gives no {name}")


def hex_data(value: str) -> bytes:
    """Return the bytes that hex digits say, with or without 0x."""
    return bytes.fromhex(value.removeprefix("0x"))


def number(value: str) -> int:
    """Return a number written in hexadecimal or, without 0x, in decimal digits."""
    return int(value, 16 if value.startswith("0x") else 10)
