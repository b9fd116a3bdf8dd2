"""Turn what cannot be decoded into an error that names the field and the block."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from msgspec import Raw

from indexer.chain.decode.levels import BadField
from indexer.chain.decode.scalars import BIGINT, Quantity
from indexer.errors import MalformedResponse

_PATH: Final = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_MISSING: Final = re.compile(r"^Object missing required field `(?P<name>[^`]*)`")
_NUMBER: Final = Quantity(BIGINT)


class _Numbered(msgspec.Struct):
    number: str | None = None
    blockNumber: str | None = None


@contextmanager
def explained(raw: bytes | Raw, method: str, number: int | None) -> Iterator[None]:
    """Raise MalformedResponse for what msgspec cannot make a reply of."""
    try:
        yield
    except (msgspec.DecodeError, RecursionError) as error:
        field, problem = _explain(error)
        known = number if number is not None else number_in(raw)
        raise MalformedResponse(method, field, known, problem) from None


@contextmanager
def placed(
    path: Callable[[int], str], method: str, number: int | None
) -> Iterator[None]:
    """Raise MalformedResponse for a BadField; ``path`` says where a row stands."""
    try:
        yield
    except BadField as error:
        where = path(error.row)
        field = f"{where}.{error.name}" if where else error.name
        raise MalformedResponse(method, field, number, error.problem) from None


def number_in(raw: bytes | Raw) -> int | None:
    """Return the block number a reply names, where it names one at all."""
    try:
        found = msgspec.json.decode(raw, type=_Numbered | list[_Numbered])
        first = found[0] if isinstance(found, list) else found
        return _NUMBER.one(first.number or first.blockNumber or "")
    except (msgspec.DecodeError, RecursionError, ValueError, IndexError):
        return None


def _explain(error: Exception) -> tuple[str, str]:
    text = str(error)
    at = _PATH.search(text)
    path = at["path"] if at else ""
    problem = text[: at.start()] if at else text
    missing = _MISSING.match(text)
    if missing:
        return f"{path}.{missing['name']}" if path else missing["name"], "is missing"
    return path or "(whole reply)", problem
