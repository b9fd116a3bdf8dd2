"""JSON-RPC framing: requests into bytes, and every reply to its own request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from indexer.chain.decode.extras import with_whole_pairs
from indexer.errors import InconsistentResponse, RpcUnavailable
from indexer.log import redact

_NOTHING: Final = Raw(b"")
# Enough of an error text to act on; some nodes answer with the whole request.
_TEXT_CHARACTERS: Final = 500


class Call(NamedTuple):
    """A method and its parameters."""

    method: str
    params: Sequence[object]


class Fault(NamedTuple):
    """An error object, with secrets taken out of its text."""

    code: int | None
    text: str


class _Reply(msgspec.Struct):
    id: int | str | float | UnsetType | None = UNSET
    result: Raw = _NOTHING
    error: Raw = _NOTHING
    # A bare error object, as some gateways answer.
    code: Raw = _NOTHING
    message: Raw = _NOTHING


class _Error(msgspec.Struct):
    code: Any = None
    message: Any = None


_REPLIES: Final = msgspec.json.Decoder(_Reply | list[_Reply])


def encode(calls: Sequence[Call], first_id: int) -> bytes:
    """Return the request; ids count from ``first_id``. One call is no batch."""
    requests = [
        b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}'
        % (first_id + position, call.method.encode(), msgspec.json.encode(call.params))
        for position, call in enumerate(calls)
    ]
    return requests[0] if len(requests) == 1 else b"[" + b",".join(requests) + b"]"


def match(body: bytes, *, count: int, first_id: int) -> list[Raw | Fault] | Fault:
    """Return the outcome of each call, in the order of the calls (C1).

    One Fault alone stands for all calls of a batch. Raises RpcUnavailable for what
    is not JSON-RPC, InconsistentResponse for a missing, doubled or foreign id.
    """
    replies = _decode(body)
    if not isinstance(replies, list):
        fault = _fault(replies)
        if fault is None and replies.result is _NOTHING:
            raise RpcUnavailable("the node's answer has neither a result nor an error")
        if count > 1:
            if fault is None:
                raise InconsistentResponse(
                    f"a batch of {count} requests was answered with one result"
                )
            return fault
        # An error about the request as such carries no id.
        if fault is not None and not isinstance(replies.id, int):
            return [fault]
        replies = [replies]
    expected = range(first_id, first_id + count)
    by_id = {reply.id: reply for reply in replies}
    if len(replies) != count or by_id.keys() != set(expected):
        # Providers refuse a batch by one error in a list, or by errors of one id.
        faults = [fault for reply in replies if (fault := _fault(reply)) is not None]
        if faults and len(faults) == len(replies):
            return faults[0]
        raise InconsistentResponse(
            f"{count} requests were answered by {len(replies)} replies, of which "
            f"{len(by_id.keys() & set(expected))} have an id that was asked for"
        )
    return [_outcome(by_id[each]) for each in expected]


def _decode(body: bytes) -> _Reply | list[_Reply]:
    try:
        try:
            return _REPLIES.decode(body)
        except msgspec.DecodeError:
            return _REPLIES.decode(with_whole_pairs(body))
    except (msgspec.DecodeError, RecursionError) as error:
        start = body[:80].decode(errors="replace").strip()
        raise RpcUnavailable(
            f"the node's answer is not JSON-RPC ({error}); it begins {redact(start)!r}"
        ) from None


def _outcome(reply: _Reply) -> Raw | Fault:
    fault = _fault(reply)
    if fault is not None:
        return fault
    if reply.result is _NOTHING:
        raise RpcUnavailable("the node's answer has neither a result nor an error")
    return reply.result


def _fault(reply: _Reply) -> Fault | None:
    raw = reply.error
    if raw is _NOTHING and reply.result is _NOTHING and reply.code is not _NOTHING:
        raw = Raw(
            b'{"code":%b,"message":%b}'
            % (bytes(reply.code), bytes(reply.message) or b"null")
        )
    if raw is _NOTHING or bytes(raw) == b"null":
        return None
    try:
        error = msgspec.json.decode(raw, type=_Error)
    except msgspec.DecodeError:
        error = _Error(message=bytes(raw).decode(errors="replace"))
    code = error.code if isinstance(error.code, int) else None
    text = redact(str(error.message or bytes(raw).decode(errors="replace")))
    return Fault(code, text[:_TEXT_CHARACTERS])
