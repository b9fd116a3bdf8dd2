"""Check payloads before they are sent: PostgreSQL refuses a whole statement."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from indexer.errors import ConfigError

# A payload says which work, it does not carry it. It is also rewritten with every
# claim that is not HOT, so megabytes would be paid for many times.
MAX_PAYLOAD_BYTES = 1_000_000


def encode_payloads(kind: str, payloads: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the payloads as JSON texts that PostgreSQL is sure to take.

    Raises ConfigError naming the first payload that cannot be stored, and why.
    """
    return [
        _encode(payload, f"payload {position} of the {kind!r} jobs")
        for position, payload in enumerate(payloads)
    ]


def check_kind(kind: str) -> None:
    """Raise ConfigError for a kind that PostgreSQL cannot hold."""
    problem = "it is empty" if not kind else _text_problem(kind)
    if problem is not None:
        raise ConfigError(f"the kind {kind!r} cannot be stored: {problem}")


def _encode(payload: Mapping[str, object], what: str) -> str:
    if not isinstance(payload, dict):
        raise ConfigError(f"{what} must be a JSON object")
    try:
        text = json.dumps(payload, allow_nan=False, ensure_ascii=False)
        problem = _problem(payload)
    except RecursionError:
        raise ConfigError(f"{what} is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{what} is not JSON: {error}") from None
    if problem is not None:
        raise ConfigError(f"{what} cannot be stored: {problem}")
    size = len(text.encode())
    if size > MAX_PAYLOAD_BYTES:
        raise ConfigError(
            f"{what} has {size} bytes; at most {MAX_PAYLOAD_BYTES} are taken"
        )
    return text


def _problem(value: object) -> str | None:
    if isinstance(value, str):
        return _text_problem(value)
    if isinstance(value, dict):
        nested = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple):
        nested = list(value)
    else:
        return None
    return next((found for each in nested if (found := _problem(each))), None)


def _text_problem(text: str) -> str | None:
    if "\0" in text:
        return "a text holds a NUL character, which PostgreSQL has no place for"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "a text holds half of a surrogate pair, which is no Unicode"
    return None
