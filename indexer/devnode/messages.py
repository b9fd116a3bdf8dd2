"""JSON-RPC messages: parsed leniently as to ids, answered with the very same id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
SERVER_ERROR = -32000


class RpcFailure(Exception):
    """A call that is answered with an error object."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Call(msgspec.Struct, gc=False):
    """One call; ``id`` is the JSON as it came, empty for a notification."""

    method: str
    id: msgspec.Raw = msgspec.Raw()
    params: Any = None


class Malformed(msgspec.Struct):
    """A member of a batch that is no call; ``id`` as far as there is one."""

    id: msgspec.Raw = msgspec.Raw(b"null")


Calls = Call | Malformed | Sequence[Call | Malformed]

_CALL = msgspec.json.Decoder(Call)
_BATCH = msgspec.json.Decoder(list[Call])
_PARTS = msgspec.json.Decoder(list[msgspec.Raw])
_ID = msgspec.json.Decoder(Malformed)


def parse(body: bytes) -> Calls:
    """Return the call, or the calls of a batch.

    Raises:
        RpcFailure: the body is no JSON at all.
    """
    try:
        if body.lstrip()[:1] != b"[":
            return _parse_one(body)
        try:
            return _BATCH.decode(body)
        except msgspec.ValidationError:
            return [_parse_one(part) for part in _PARTS.decode(body)]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RpcFailure(PARSE_ERROR, f"parse error: {error}") from error


def _parse_one(body: bytes | msgspec.Raw) -> Call | Malformed:
    try:
        return _CALL.decode(body)
    except msgspec.ValidationError:
        pass
    try:
        return _ID.decode(body)
    except msgspec.ValidationError:
        return Malformed()


def methods(calls: Calls) -> list[str]:
    """Return the method of each call."""
    if isinstance(calls, Sequence):
        return [call.method for call in calls if isinstance(call, Call)]
    return [calls.method] if isinstance(calls, Call) else []


def ids(calls: Calls) -> list[bytes]:
    """Return the id of each call as JSON, empty for a notification."""
    members = calls if isinstance(calls, Sequence) else [calls]
    return [bytes(call.id) for call in members]


def result(call_id: bytes | msgspec.Raw, payload: bytes) -> bytes:
    """Return the reply that carries a result, which is JSON already."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (call_id, payload)


def error(call_id: bytes | msgspec.Raw, code: int, message: str) -> bytes:
    """Return the reply that carries an error object."""
    return envelope(call_id, error_member(code, message))


def error_member(code: int, message: str) -> bytes:
    """Return the member of a reply that is an error object."""
    return b'"error":' + msgspec.json.encode({"code": code, "message": message})


def envelope(call_id: bytes | msgspec.Raw, member: bytes) -> bytes:
    """Return the reply around its ``"result"`` or ``"error"`` member."""
    return b'{"jsonrpc":"2.0","id":%b,%b}' % (call_id, member)


def notification(subscription: str, payload: bytes) -> bytes:
    """Return what a subscriber is sent."""
    return (
        b'{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"%b",'
        b'"result":%b}}' % (subscription.encode(), payload)
    )
