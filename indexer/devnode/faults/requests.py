"""Faults of a whole request: refused, delayed, cut off, or never answered."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from indexer.devnode import messages
from indexer.devnode.faults.fault import Fault
from indexer.devnode.faults.kind import Act, Memory, RequestKind, filled

Ids = Sequence[bytes]

_GATEWAY = (
    "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1>"
    "</center>\r\n</body>\r\n</html>\r\n"
)


def _latency(fault: Fault, _memory: Memory, _ids: Ids) -> Act:
    return Act(wait=fault.seconds)


def _drop(_fault: Fault, _memory: Memory, _ids: Ids) -> Act:
    return Act(end="drop")


def _reset(_fault: Fault, _memory: Memory, _ids: Ids) -> Act:
    return Act(end="reset")


def _silence(_fault: Fault, _memory: Memory, _ids: Ids) -> Act:
    return Act(end="silence")


def _status(fault: Fault, _memory: Memory, _ids: Ids) -> Act:
    headers = {}
    if fault.retry_after is not None:
        headers["Retry-After"] = str(fault.retry_after)
    body = fault.body.encode()
    kinds = {"{": "application/json", "[": "application/json", "<": "text/html"}
    content_type = kinds.get(fault.body[:1], "text/plain")
    return Act(
        status=fault.status, body=body, content_type=content_type, headers=headers
    )


def _error_of_all(fault: Fault, ids: Ids) -> bytes:
    """Return one error object, with the id of the first call as geth has it."""
    first = ids[0] if ids and ids[0] else b"null"
    return messages.error(first, fault.code, _text(fault, ids))


def _text(fault: Fault, ids: Ids) -> str:
    return filled(fault.message, count=fault.count, size=len(ids))


def _batch_limit(fault: Fault, _memory: Memory, ids: Ids) -> Act | None:
    if len(ids) <= fault.count:
        return None
    errors = [messages.error(one, fault.code, _text(fault, ids)) for one in ids if one]
    return Act(status=200, body=b"[" + b",".join(errors) + b"]")


def _batch_limit_one(fault: Fault, _memory: Memory, ids: Ids) -> Act | None:
    if len(ids) <= fault.count:
        return None
    return Act(status=200, body=_error_of_all(fault, ids))


def _batch_limit_drop(fault: Fault, _memory: Memory, ids: Ids) -> Act | None:
    return Act(end="drop") if len(ids) > fault.count else None


def _batch_limit_413(fault: Fault, memory: Memory, ids: Ids) -> Act | None:
    return _status(fault, memory, ids) if len(ids) > fault.count else None


def _admits(fault: Fault, memory: Memory, calls: int) -> bool:
    """Take a token for each call out of the bucket, if there are enough.

    A batch larger than the bucket passes when that is full, and leaves a debt.
    """
    now = monotonic()
    size = float(fault.count) or max(1.0, fault.rate)
    tokens, since = memory.tokens or (size, now)
    tokens = min(size, tokens + (now - since) * fault.rate)
    admitted = tokens >= min(calls, size)
    memory.tokens = (tokens - calls if admitted else tokens, now)
    return admitted


def _rate_limit(fault: Fault, memory: Memory, ids: Ids) -> Act | None:
    return None if _admits(fault, memory, len(ids)) else _status(fault, memory, ids)


def _rate_limit_errors(fault: Fault, memory: Memory, ids: Ids) -> Act | None:
    if _admits(fault, memory, len(ids)):
        return None
    if len(ids) == 1:
        return Act(status=200, body=_error_of_all(fault, ids))
    errors = [messages.error(one, fault.code, _text(fault, ids)) for one in ids if one]
    return Act(status=200, body=b"[" + b",".join(errors) + b"]")


_BUSY = (
    '{"jsonrpc":"2.0","id":1,"error":{"code":429,"message":"Your app has exceeded its '
    'compute units per second capacity."}}'
)
_RATE = "project ID request rate exceeded"

REQUEST_KINDS = {
    "latency": RequestKind(
        doc="The answer takes `seconds` longer (0.03).",
        act=_latency,
        defaults={"seconds": 0.03},
    ),
    "status": RequestKind(
        doc="HTTP `status` (503) with `body` and maybe Retry-After.",
        act=_status,
        defaults={"status": 503},
        scheduled=True,
    ),
    "http_429": RequestKind(
        doc="HTTP 429 as a provider says it; Retry-After where `retry_after` is set.",
        act=_status,
        defaults={"status": 429, "body": _BUSY},
        scheduled=True,
    ),
    "http_413": RequestKind(
        doc="HTTP 413 with the page of a proxy.",
        act=_status,
        defaults={"status": 413, "body": _GATEWAY.format("413 Request Too Large")},
    ),
    "http_502": RequestKind(
        doc="HTTP 502 with the page of a proxy.",
        act=_status,
        defaults={"status": 502, "body": _GATEWAY.format("502 Bad Gateway")},
        scheduled=True,
    ),
    "plain_text": RequestKind(
        doc="HTTP 200 with a text that is no JSON.",
        act=_status,
        defaults={"status": 200, "body": "invalid host specified\n"},
        scheduled=True,
    ),
    "no_envelope": RequestKind(
        doc="HTTP 200 with JSON that has neither result nor error.",
        act=_status,
        defaults={
            "status": 200,
            "body": '{"message":"no Route matched with those values"}',
        },
        scheduled=True,
    ),
    "drop": RequestKind(
        doc="The connection ends without an answer.", act=_drop, scheduled=True
    ),
    "reset": RequestKind(
        doc="The connection is reset (RST) without an answer.",
        act=_reset,
        scheduled=True,
    ),
    "silence": RequestKind(
        doc="Nothing is ever answered, and the connection stays.", act=_silence
    ),
    "batch_limit": RequestKind(
        doc="More than `count` calls (100): every one of them gets an error.",
        act=_batch_limit,
        defaults={
            "count": 100,
            "code": 31,
            "message": "Batch of more than {count} requests are not allowed",
        },
    ),
    "batch_limit_one": RequestKind(
        doc="More than `count` calls (100): one error object for all.",
        act=_batch_limit_one,
        defaults={"count": 100, "code": -32600, "message": "batch too large"},
    ),
    "batch_limit_drop": RequestKind(
        doc="More than `count` calls (100): the connection ends without a word.",
        act=_batch_limit_drop,
        defaults={"count": 100},
    ),
    "batch_limit_413": RequestKind(
        doc="More than `count` calls (100): HTTP 413.",
        act=_batch_limit_413,
        defaults={
            "count": 100,
            "status": 413,
            "body": _GATEWAY.format("413 Request Too Large"),
        },
    ),
    "rate_limit": RequestKind(
        doc="More than `rate` calls a second (20), bursts of `count`: HTTP 429.",
        act=_rate_limit,
        defaults={"rate": 20.0, "status": 429, "body": _BUSY},
    ),
    "rate_limit_errors": RequestKind(
        doc="More than `rate` calls a second (20), bursts of `count`: -32005 for each.",
        act=_rate_limit_errors,
        defaults={"rate": 20.0, "code": -32005, "message": _RATE},
    ),
}
