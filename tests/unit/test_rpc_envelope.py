"""Each reply finds its own request, or the whole answer is refused (C1)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from indexer.chain.envelope import Call, Fault, encode, match
from indexer.errors import InconsistentResponse, RpcUnavailable

CALLS = [Call("eth_a", ["0x1", True]), Call("eth_b", []), Call("eth_c", [{"x": None}])]


def _reply(number: Any, result: Any = "r") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _error(number: Any, code: int = -32000, message: str = "no") -> dict[str, Any]:
    return {"id": number, "error": {"code": code, "message": message}}


def _match(replies: object, count: int = 3) -> list[Raw | Fault] | Fault:
    return match(json.dumps(replies).encode(), count=count, first_id=7)


def _results(outcomes: list[Raw | Fault] | Fault) -> list[Any]:
    assert isinstance(outcomes, list)
    return [json.loads(bytes(one)) for one in outcomes if isinstance(one, Raw)]


def test_requests_are_numbered_from_the_first_id() -> None:
    sent = json.loads(encode(CALLS, 7))
    assert [(each["id"], each["method"], each["params"]) for each in sent] == [
        (7, "eth_a", ["0x1", True]),
        (8, "eth_b", []),
        (9, "eth_c", [{"x": None}]),
    ]
    assert all(each["jsonrpc"] == "2.0" for each in sent)


def test_one_request_is_no_batch() -> None:
    assert json.loads(encode(CALLS[:1], 7))["method"] == "eth_a"


def test_c1_replies_in_any_order_find_their_requests() -> None:
    replies = [_reply(9, "c"), _reply(7, "a"), _reply(8, "b")]
    assert _results(_match(replies)) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "ids",
    [[7, 8], [7, 8, 8], [7, 8, 10], [7, 8, 9, 9], [7, 8, 9, 10], [7, 8, None],
     [7, 8, "9"], [7, 7, 7], []],
)  # fmt: skip
def test_c1_a_missing_doubled_or_foreign_id_fails_the_batch(ids: list[Any]) -> None:
    with pytest.raises(InconsistentResponse, match="3 requests were answered by"):
        _match([_reply(each) for each in ids])


def test_c1_the_reply_to_another_single_request_is_refused() -> None:
    with pytest.raises(InconsistentResponse):
        _match(_reply(8), count=1)


def test_c1_one_result_is_no_answer_to_a_batch() -> None:
    with pytest.raises(InconsistentResponse, match="one result"):
        _match(_reply(7))


@pytest.mark.parametrize(
    "answer",
    [_error(None), _error(7), {"error": {"code": -32000, "message": "no"}},
     [_error(None)], [_error(7), _error(7), _error(7)],
     {"code": -32000, "message": "no"}],
)  # fmt: skip
def test_one_error_may_stand_for_the_whole_batch(answer: object) -> None:
    assert _match(answer) == Fault(-32000, "no")


def test_an_error_of_one_request_leaves_the_others_theirs() -> None:
    outcomes = _match([_reply(7, 1), _error(8, 5), _reply(9, 3)])
    assert isinstance(outcomes, list)
    assert outcomes[1] == Fault(5, "no")
    assert _results(outcomes) == [1, 3]


def test_an_error_without_an_id_is_the_single_requests() -> None:
    assert _match(_error(None), count=1) == [Fault(-32000, "no")]


def test_null_is_a_result_and_a_null_error_is_none() -> None:
    assert _results(_match(_reply(7, None), count=1)) == [None]
    assert _results(_match({**_reply(7), "error": None}, count=1)) == ["r"]


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        ("just text", Fault(None, '"just text"')),
        ({"message": "text"}, Fault(None, "text")),
        ({"code": "5", "message": None}, Fault(None, '{"code": "5", "message": null}')),
        ({"code": 3, "message": "x" * 9000}, Fault(3, "x" * 500)),
        (
            {"code": 3, "message": "see https://node.example/v2/KEY"},
            Fault(3, "see https://node.example/***"),
        ),
    ],
)
def test_an_error_of_any_form_is_read_and_made_fit_to_show(
    error: object, fault: Fault
) -> None:
    assert _match({"id": 7, "error": error}, count=1) == [fault]


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>502 Bad Gateway</html>", b'{"id":7,"result":"0x', b"invalid host",
     b'{"message":"no Route matched"}', b'{"id":7}', b"7", b"[[]]", b"[" * 5000,
     b"\xff\xfe"],
)  # fmt: skip
def test_what_is_not_json_rpc_means_that_the_node_is_not_there(body: bytes) -> None:
    with pytest.raises(RpcUnavailable):
        match(body, count=1, first_id=7)


def test_half_a_surrogate_pair_does_not_cost_the_answer() -> None:
    outcomes = match(b'{"id":7,"result":"a\\udc00b"}', count=1, first_id=7)
    assert _results(outcomes) == ["a\x00b"]
