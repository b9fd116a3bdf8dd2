"""Check payloads before they are sent: PostgreSQL refuses a whole statement."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from indexer.errors import ConfigError

# A payload says which work, it does not carry it. It is also rewritten with every
# claim that is not HOT, so megabytes would be paid for many times.
MAX_PAYLOAD_BYTES = 1_000_000
MAX_NESTING = 200

_BRACKET_OR_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')


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


def is_too_deep(text: str) -> bool:
    """Tell whether a JSON text is nested deeper than is safe to read.

    The json module has a limit of its own, but it is Python's recursion limit, which
    others raise beyond what the stack holds (py_ecc, below web3, to 100,000): then a
    deep text ends the process.
    """
    if text.count("{") + text.count("[") <= MAX_NESTING:
        return False
    depth = 0
    for match in _BRACKET_OR_STRING.finditer(text):
        if match[0] in "[{":
            depth += 1
            if depth > MAX_NESTING:
                return True
        elif match[0] in "]}":
            depth -= 1
    return False


def _encode(payload: Mapping[str, object], what: str) -> str:
    if not isinstance(payload, dict):
        raise ConfigError(f"{what} must be a JSON object")
    problem = _problem(payload)
    if problem is not None:
        raise ConfigError(f"{what} cannot be stored: {problem}")
    try:
        text = json.dumps(payload, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{what} is not JSON: {error}") from None
    size = len(text.encode())
    if size > MAX_PAYLOAD_BYTES:
        raise ConfigError(
            f"{what} has {size} bytes; at most {MAX_PAYLOAD_BYTES} are taken"
        )
    return text


def _problem(payload: object) -> str | None:
    level = [payload]
    for _ in range(MAX_NESTING + 1):
        below: list[object] = []
        for value in level:
            if isinstance(value, str):
                problem = _text_problem(value)
                if problem is not None:
                    return problem
            elif isinstance(value, dict):
                below += value.keys()
                below += value.values()
            elif isinstance(value, list | tuple):
                below += value
        if not below:
            return None
        level = below
    return f"it is nested deeper than {MAX_NESTING} levels"


def _text_problem(text: str) -> str | None:
    if "\0" in text:
        return "a text holds a NUL character, which PostgreSQL has no place for"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "a text holds half of a surrogate pair, which is no Unicode"
    return None
