"""Calls answered with an error, or with null, instead of their result."""

from __future__ import annotations

from indexer.devnode.faults.fault import Fault
from indexer.devnode.faults.kind import (
    BLOCKS,
    LOGS,
    RECEIPT,
    RECEIPTS,
    CallKind,
    Memory,
    Met,
    Outcome,
    filled,
)
from indexer.devnode.messages import METHOD_NOT_FOUND, RpcFailure


def _error(fault: Fault, _memory: Memory, _met: Met) -> Outcome:
    return RpcFailure(fault.code, fault.message)


def _null(_fault: Fault, _memory: Memory, met: Met) -> Outcome | None:
    return None if met.outcome == b"null" else b"null"


def _null_first(fault: Fault, memory: Memory, met: Met) -> Outcome | None:
    if met.heights is None or met.outcome == b"null":
        return None
    asked = (met.call.method, met.heights)
    memory.asks[asked] = memory.asks.get(asked, 0) + 1
    return b"null" if memory.asks[asked] <= fault.count else None


def _announce_early(fault: Fault, memory: Memory, met: Met) -> Outcome | None:
    if met.heights is None or met.heights.start <= memory.head:
        return None
    return _null_first(fault, memory, met)


def _unsupported(_fault: Fault, _memory: Memory, met: Met) -> Outcome:
    return RpcFailure(
        METHOD_NOT_FOUND,
        f"the method {met.call.method} does not exist/is not available",
    )


def _pruned(fault: Fault, memory: Memory, met: Met) -> Outcome | None:
    if met.heights is None or met.heights.start >= fault.height:
        return None
    if met.call.method in BLOCKS:
        # Nodes that drop history keep the genesis block.
        kept = met.heights.start == 0
        return None if kept else _null(fault, memory, met)
    return RpcFailure(fault.code, fault.message)


def _log_range_limit(fault: Fault, _memory: Memory, met: Met) -> Outcome | None:
    heights = met.heights
    if heights is None or len(heights) <= fault.count:
        return None
    text = filled(
        fault.message,
        range=len(heights),
        count=fault.count,
        first=hex(heights.start),
        last=hex(heights.start + fault.count - 1),
    )
    return RpcFailure(fault.code, text)


def _refusal(code: int, message: str, *, scheduled: bool = True) -> CallKind:
    return CallKind(
        doc=f'HTTP 200 with the error {code}, "{message}".',
        spoil=_error,
        defaults={"code": code, "message": message},
        scheduled=scheduled,
    )


_PRUNED = {"code": 4444, "message": "pruned history unavailable"}

ERROR_KINDS = {
    "error": CallKind(
        doc="HTTP 200 with the error `code` (-32000) and `message`.",
        spoil=_error,
        defaults={"code": -32000, "message": "fault on purpose"},
        scheduled=True,
    ),
    "error_rate_limit": _refusal(-32005, "project ID request rate exceeded"),
    "error_32007": _refusal(-32007, "50/second request limit reached"),
    "error_32016": _refusal(-32016, "over rate limit"),
    "error_30": _refusal(
        30, "Request timeout on the free tier, please upgrade your tier to the paid one"
    ),
    "error_nested_429": _refusal(
        -32000,
        '429 Too Many Requests: {"jsonrpc":"2.0","error":{"code":-32016,'
        '"message":"over rate limit"},"id":1}',
    ),
    # A client takes this for good, so a schedule does not say it now and then.
    "error_4444": _refusal(4444, "pruned history unavailable", scheduled=False),
    "error_too_many_results": CallKind(
        doc='HTTP 200 with the error -32005, "query returned more than 10000 results".',
        spoil=_error,
        methods=LOGS,
        defaults={
            "code": -32005,
            "message": "query returned more than 10000 results",
        },
        scheduled=True,
    ),
    "null": CallKind(doc="The result is null whatever is asked.", spoil=_null),
    "null_block": CallKind(
        doc="Blocks are null.", spoil=_null, methods=BLOCKS, scheduled=True
    ),
    "null_receipts": CallKind(
        doc="The receipts of a block, or one receipt, are null.",
        spoil=_null,
        methods=RECEIPTS | RECEIPT,
        scheduled=True,
    ),
    "null_first": CallKind(
        doc="Blocks and receipts are null the first `count` times they are asked for.",
        spoil=_null_first,
        methods=BLOCKS | RECEIPTS | RECEIPT,
        defaults={"count": 1},
    ),
    "announce_early": CallKind(
        doc="So are, `count` times (1), blocks that are new since the fault is on.",
        spoil=_announce_early,
        methods=BLOCKS | RECEIPTS | RECEIPT,
        defaults={"count": 1},
    ),
    "unsupported": CallKind(
        doc="The method (eth_getBlockReceipts) does not exist: -32601.",
        spoil=_unsupported,
        defaults={"method": "eth_getBlockReceipts"},
    ),
    "pruned": CallKind(
        doc="Below `height` blocks are null, their receipts and logs error 4444.",
        spoil=_pruned,
        methods=BLOCKS | RECEIPTS | RECEIPT | LOGS,
        defaults=_PRUNED,
    ),
    "pruned_receipts": CallKind(
        doc="Below `height` there are blocks, but receipts and logs are error 4444.",
        spoil=_pruned,
        methods=RECEIPTS | RECEIPT | LOGS,
        defaults=_PRUNED,
    ),
    "log_range_limit": CallKind(
        doc="eth_getLogs over more than `count` blocks (2,000) is an error.",
        spoil=_log_range_limit,
        methods=LOGS,
        defaults={
            "count": 2000,
            "code": -32005,
            "message": "eth_getLogs block range too large, "
            "range: {range}, max: {count}",
        },
    ),
}
