"""What callers may give as parameters."""

from __future__ import annotations

import re
from typing import Any

from indexer.devnode.messages import INVALID_PARAMS, RpcFailure
from indexer.devnode.served import ReadableChain

_QUANTITY = re.compile(r"0[xX](0|[1-9a-fA-F][0-9a-fA-F]{0,15})")
_HASH = re.compile(r"0[xX][0-9a-fA-F]{64}")


def arguments(params: list[Any], count: int) -> list[Any]:
    """Return the parameters, which must be so many."""
    if len(params) < count:
        raise RpcFailure(
            INVALID_PARAMS, f"missing value for required argument {len(params)}"
        )
    if len(params) > count:
        raise RpcFailure(INVALID_PARAMS, f"too many arguments, want at most {count}")
    return params


def flag(value: Any) -> bool:  # noqa: ANN401 - JSON
    """Read a boolean."""
    if not isinstance(value, bool):
        raise RpcFailure(INVALID_PARAMS, "invalid argument 1: not a boolean")
    return value


def hash_of(value: Any) -> bytes:  # noqa: ANN401 - JSON
    """Read a hash."""
    if not isinstance(value, str) or _HASH.fullmatch(value) is None:
        raise RpcFailure(INVALID_PARAMS, "invalid argument 0: not a 32-byte hash")
    return bytes.fromhex(value[2:])


def wanted_height(value: Any, chain: ReadableChain) -> int:  # noqa: ANN401 - JSON
    """Resolve a number or tag to a height.

    ``pending`` is the latest, as on a node that mines nothing itself.
    """
    if isinstance(value, str):
        if _QUANTITY.fullmatch(value) is not None:
            return int(value, 16)
        if value in ("latest", "pending"):
            return chain.head
        if value == "earliest":
            return 0
        height = {"safe": chain.safe, "finalized": chain.finalized}.get(value)
        if height is not None:
            return height
    # What a node from before the merge says of "finalized", too.
    raise RpcFailure(INVALID_PARAMS, "invalid argument 0: hex string without 0x prefix")
