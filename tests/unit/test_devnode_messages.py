"""What clients may send, and that they get their own ids back."""

from __future__ import annotations

import json

import pytest

from indexer.devnode import messages
from indexer.devnode.messages import Call, Malformed, RpcFailure


@pytest.mark.parametrize(
    "call_id", ["1", "-7", "1.50", '"a \\u00e9"', "null", "[1]", '{"a":  1}', "1e400"]
)
def test_any_json_comes_back_as_the_id_it_was(call_id: str) -> None:
    call = messages.parse(f'{{"id":{call_id},"method":"m"}}'.encode())
    assert isinstance(call, Call)
    assert f'"id":{call_id},' in messages.result(call.id, b"1").decode()


def test_a_bad_member_of_a_batch_does_not_spoil_the_others() -> None:
    calls = messages.parse(b'[{"id":1,"method":"m"},7,{"id":2},{"id":3,"method":4}]')
    assert isinstance(calls, list)
    assert [type(call) for call in calls] == [Call, Malformed, Malformed, Malformed]
    assert [bytes(call.id) for call in calls] == [b"1", b"null", b"2", b"3"]


@pytest.mark.parametrize("body", [b"", b"{", b"[{]", b"nonsense", b'{"method":"\xff"}'])
def test_what_is_no_json_is_a_parse_error(body: bytes) -> None:
    with pytest.raises(RpcFailure) as caught:
        messages.parse(body)
    assert caught.value.code == -32700


def test_errors_are_escaped() -> None:
    reply = json.loads(messages.error(b"5", -32000, 'a "quoted"\n text'))
    assert reply == {
        "jsonrpc": "2.0",
        "id": 5,
        "error": {"code": -32000, "message": 'a "quoted"\n text'},
    }
