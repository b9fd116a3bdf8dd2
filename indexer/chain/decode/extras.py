"""Keep the fields no column takes, as JSON text that ``jsonb`` accepts."""

from __future__ import annotations

import json
import re
from typing import Final

from msgspec import Raw

# The key under which a row names the fields whose text had to be altered.
SANITIZED: Final = "_sanitized"

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ESCAPE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u[0-9a-fA-F]{4}|\\.",
    re.DOTALL,
)
# jsonb keeps numbers as numeric: 131,072 digits before the point, 16,383 after.
_HUGE_NUMBER: Final = re.compile(
    r"(?:^|[:,\[\s])-?(?:[0-9.]{10000}|[0-9.]+[eE][+-]?[0-9]{5})"
)


def storable(raw: bytes | Raw) -> tuple[str, bool]:
    """Return JSON text that ``jsonb`` accepts, and whether a string was altered.

    ``raw`` is one well-formed JSON value, but for its UTF-8. NUL, half surrogate
    pairs and bytes that are not UTF-8 become U+FFFD, never nothing: two names must
    not become one. Raises ValueError for a number that numeric cannot hold.
    """
    data = bytes(raw)
    altered = False
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
        altered = True
    if "\\u" in text:
        plain = _ESCAPE.sub(_storable_escape, text)
        altered = altered or plain != text
        text = plain
    # What looks like a number may stand inside a string, so look again without.
    if (
        text[0] != '"'
        and _HUGE_NUMBER.search(text)
        and _HUGE_NUMBER.search(_STRING.sub('""', text))
    ):
        raise ValueError("holds a number that is too large to store")
    return text, altered


def as_stored(raw: bytes) -> str | None:
    """Return the text where :func:`storable` surely changes and refuses nothing.

    ``raw`` may be several values, with blanks between them.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return None if "\\u" in text or _HUGE_NUMBER.search(text) else text


def with_whole_pairs(raw: bytes) -> bytes:
    r"""Turn each half of a surrogate pair into ``\u0000``.

    The decoder refuses a whole reply for one half; what is to be kept of a NUL is
    decided, and marked, where the field it is in is known.
    """
    # Latin-1 is one character a byte, whatever the bytes mean.
    text = _ESCAPE.sub(_whole, raw.decode("latin-1"))
    return text.encode("latin-1")


def _whole(match: re.Match[str]) -> str:
    escape = match[0]
    is_half = len(escape) == 6 and 0xD800 <= int(escape[2:], 16) <= 0xDFFF
    return "\\u0000" if is_half else escape


def _storable_escape(match: re.Match[str]) -> str:
    escape = match[0]
    if len(escape) != 6:
        return escape
    code = int(escape[2:], 16)
    return REPLACEMENT if code == 0 or 0xD800 <= code <= 0xDFFF else escape


class Extras:
    """The ``extra`` column of some rows, gathered field by field."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._members: dict[int, list[str]] = {}
        self._altered: dict[int, list[str]] = {}

    def keep(self, row: int, name: str, raw: bytes | Raw) -> None:
        """Keep a field of a row; raises ValueError where it cannot be stored."""
        text, altered = storable(raw)
        key = json.dumps(name, ensure_ascii=False)
        self._members.setdefault(row, []).append(f"{key}:{text}")
        if altered:
            self.altered(row, key)

    def altered(self, row: int, key: str) -> None:
        """Note that the text of a row's field is not quite what the node sent."""
        self._altered.setdefault(row, []).append(key)

    def texts(self) -> list[str | None]:
        """Return a JSON object a row, ``None`` where it has nothing to keep."""
        for row, keys in self._altered.items():
            self._members.setdefault(row, []).append(
                f'"{SANITIZED}":[{",".join(keys)}]'
            )
        texts: list[str | None] = [None] * self._rows
        for row, members in self._members.items():
            texts[row] = f"{{{','.join(members)}}}"
        return texts
