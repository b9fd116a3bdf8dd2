"""Results that are wrong but well-formed: the tools for telling such lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import msgspec

from indexer.devnode.faults.fault import Fault
from indexer.devnode.faults.kind import CallKind, Memory, Met, Outcome
from indexer.devnode.messages import RpcFailure

Json = dict[str, Any]

# Changes a result in place, or returns another; ``False`` where it has nothing to
# lie about.
Lie = Callable[[Fault, Any], Any]


def lie(
    doc: str,
    methods: frozenset[str],
    tell: Lie,
    *,
    scheduled: bool = True,
    **defaults: object,
) -> CallKind:
    """Return the kind of fault that tells a lie."""

    def spoil(fault: Fault, _memory: Memory, met: Met) -> Outcome | None:
        if isinstance(met.outcome, RpcFailure) or met.outcome == b"null":
            return None
        result = msgspec.json.decode(met.outcome)
        told = tell(fault, result)
        if told is False:
            return None
        return msgspec.json.encode(result if told is None else told)

    return CallKind(
        doc=doc, spoil=spoil, methods=methods, defaults=defaults, scheduled=scheduled
    )


def members(result: Any) -> list[Json]:  # noqa: ANN401 - JSON
    """Return the objects below a result that name a block.

    Of a block its whole transactions, of receipts these and their logs, of a list
    of logs these.
    """
    return [item for item in objects(result) if "blockHash" in item]


def objects(result: Any) -> Iterator[Json]:  # noqa: ANN401 - JSON
    """Yield the result's blocks, transactions, receipts and logs, outer ones first."""
    if isinstance(result, list):
        for item in result:
            yield from objects(item)
    elif isinstance(result, dict):
        yield result
        for name in ("transactions", "logs"):
            yield from objects(result.get(name))


def logs_of(result: Any) -> list[list[Json]]:  # noqa: ANN401 - JSON
    """Return the lists of logs in receipts, in one receipt, or in a list of logs."""
    if isinstance(result, dict):
        return [result["logs"]] if result.get("logs") else []
    if result and "topics" in result[0]:
        return [result]
    return [receipt["logs"] for receipt in result if receipt.get("logs")]


def other_hash(value: str) -> str:
    """Return another 32-byte hash, always the same one for the same."""
    return "0x" + sha256(value.encode()).hexdigest()


def other_digit(value: str) -> str:
    """Return a hex text whose last digit is another."""
    return value[:-1] + ("1" if value[-1] == "0" else "0")
