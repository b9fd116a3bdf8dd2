"""Find every field of a reply again in rows, knowing nothing of how they were made.

Names are turned into column names by rule, values are compared by the type they have
in the row, and whatever has no column must be in ``extra`` as the same JSON value.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

_RENAMED = {"from": "from_address", "to": "to_address"}
_JSON_COLUMNS = {"access_list", "authorization_list"}


def column(name: str) -> str:
    """Return the column a JSON-RPC name would have."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return _RENAMED.get(name, snake)


def lost(reply: dict[str, Any], row: Any, *, elsewhere: frozenset[str]) -> list[str]:
    """Return what is in neither a column nor ``extra``, but for what is elsewhere."""
    extra = json.loads(row.extra) if row.extra else {}
    problems = [
        f"{name}: sent {value!r}"
        for name, value in reply.items()
        if name not in elsewhere and not _found(name, value, row, extra)
    ]
    return problems + [f"extra invented {name}" for name in extra.keys() - reply.keys()]


def _found(name: str, value: Any, row: Any, extra: dict[str, Any]) -> bool:
    if name in extra:
        return bool(extra[name] == value)
    field = column(name)
    if name == "index" and "withdrawal_index" in row._fields:
        field = "withdrawal_index"
    if field not in row._fields:
        return False
    return same(value, getattr(row, field), is_json=field in _JSON_COLUMNS)


def same(sent: Any, stored: Any, *, is_json: bool = False) -> bool:
    """Tell whether a stored value is the one that was sent."""
    if sent is None or stored is None:
        return sent is None and stored is None
    if is_json:
        return bool(json.loads(stored) == sent)
    if isinstance(stored, bytes):
        return bool(sent.lower() == "0x" + stored.hex())
    if isinstance(stored, datetime):
        return bool(stored == datetime.fromtimestamp(int(sent, 16), UTC))
    if isinstance(stored, tuple):
        return len(sent) == len(stored) and all(map(same, sent, stored))
    return bool(int(sent, 16) == stored)
