"""Which blocks a call is about."""

from __future__ import annotations

from typing import Any

from indexer.devnode.faults.kind import BLOCKS, LOGS, RECEIPT, RECEIPTS, TRANSACTION
from indexer.devnode.messages import Call, RpcFailure
from indexer.devnode.params import hash_of, wanted_height
from indexer.devnode.served import ReadableChain

_BY_BLOCK = BLOCKS | RECEIPTS | {"eth_getBlockTransactionCountByNumber"}
_BY_TRANSACTION = RECEIPT | TRANSACTION


def heights_of(call: Call, chain: ReadableChain) -> range | None:
    """Return the heights a call is about; ``None`` for none, or unknown ones."""
    if not isinstance(call.params, list) or not call.params:
        return None
    first = call.params[0]
    try:
        if call.method in _BY_BLOCK:
            return _one(_block(first, chain))
        if call.method in _BY_TRANSACTION:
            place = chain.place_of(hash_of(first))
            return None if place is None else _one(place[0])
        if call.method in LOGS and isinstance(first, dict):
            return _filter(first, chain)
    except RpcFailure:
        pass
    return None


def _one(height: int | None) -> range | None:
    return None if height is None else range(height, height + 1)


def _block(value: Any, chain: ReadableChain) -> int | None:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        value = value.get("blockHash") or value.get("blockNumber")
    if isinstance(value, str) and len(value) == 66:
        return chain.height_of(hash_of(value))
    return wanted_height(value, chain)


def _filter(spec: dict[str, Any], chain: ReadableChain) -> range | None:
    if spec.get("blockHash"):
        return _one(chain.height_of(hash_of(spec["blockHash"])))
    first, last = (
        wanted_height(spec.get(end) or "latest", chain)
        for end in ("fromBlock", "toBlock")
    )
    return range(first, last + 1)
