"""Turn what cannot be decoded into an error that names the field and the block."""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Raw

from indexer.chain.decode.kinds import BIGINT, Quantity
from indexer.chain.decode.levels import BadField
from indexer.errors import MalformedResponse

# What msgspec raises for bytes that are not the JSON asked for.
NOT_DECODABLE: Final = (msgspec.DecodeError, RecursionError)

_PATH: Final = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_MISSING: Final = re.compile(r"^Object missing required field `(?P<name>[^`]*)`")
_NUMBER: Final = Quantity(BIGINT)


class _Numbered(msgspec.Struct):
    number: str | None = None
    blockNumber: str | None = None


def bad_reply(
    error: Exception, raw: bytes | Raw, method: str, number: int | None
) -> MalformedResponse:
    """Explain why msgspec could not make a reply of ``raw``."""
    field, problem = _explain(error)
    known = number if number is not None else number_in(raw)
    return MalformedResponse(method, field, known, problem)


def bad_field(
    error: BadField, place: str, method: str, number: int | None
) -> MalformedResponse:
    """Explain a BadField; ``place`` says where its row stands in the reply."""
    field = f"{place}.{error.name}" if place else error.name
    return MalformedResponse(method, field, number, error.problem)


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
