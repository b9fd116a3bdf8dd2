"""Faults are read from plain values, and strike whom and as often as they are told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from indexer.devnode.chain import Chain
from indexer.devnode.config import DevnodeConfig
from indexer.devnode.faults import (
    KINDS,
    Fault,
    Faults,
    FaultSchedule,
    parse_fault,
    parse_faults,
)
from indexer.devnode.faults.exchange import Answered, Exchange
from indexer.devnode.messages import Call, Calls
from indexer.errors import ConfigError


def _faults(*faults: Fault, schedule: FaultSchedule | None = None) -> Faults:
    return Faults(Chain(DevnodeConfig(height=50)), faults, schedule)


def _call(method: str, *params: Any) -> Call:
    return Call(method, msgspec.Raw(b"1"), [*params])


def _body(exchange: Exchange | None, calls: Calls, result: bytes = b'"x"') -> bytes:
    """Return what an exchange makes of true answers."""
    assert exchange is not None
    members = [calls] if isinstance(calls, Call) else list(calls)  # type: ignore[arg-type]
    answered = [Answered(one, b"1", result) for one in members if isinstance(one, Call)]
    return exchange.finish(answered, batch=not isinstance(calls, Call)).body


def _struck(faults: Faults, call: Call, turns: int) -> list[bool]:
    """Return, turn by turn, whether a call was answered with null."""
    found = []
    for _ in range(turns):
        exchange = faults.meet(call)
        found.append(exchange is not None and b"null" in _body(exchange, call))
    return found


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("null", Fault(kind="null")),
        (" drop ", Fault(kind="drop")),
        ("http_429:retry_after=0", Fault(kind="http_429", retry_after=0)),
        (
            "lag:count=30,times=2,skip=1",
            Fault(kind="lag", count=30, times=2, skip=1),
        ),
        ("latency:seconds=0.5", Fault(kind="latency", seconds=0.5)),
        (
            "error:code=-32005,message=slow down: please",
            Fault(kind="error", code=-32005, message="slow down: please"),
        ),
    ],
)
def test_a_fault_is_read_from_its_short_form(text: str, fault: Fault) -> None:
    assert parse_fault(text) == fault


def test_several_faults_are_read_from_either_form() -> None:
    wanted = (Fault(kind="drop", times=1), Fault(kind="null"))
    assert parse_faults("drop:times=1; null;") == wanted
    assert parse_faults('[{"kind":"drop","times":1},"null"]') == wanted
    assert parse_faults("") == ()


@pytest.mark.parametrize(
    "text", ["null:often", "null:times=many", "null:size=3", '[{"kind":1}]', "[null"]
)
def test_what_is_no_fault_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"often|many|size|expected|Expected|truncated"
    ):
        parse_faults(text)


def test_unknown_kinds_and_useless_methods_are_refused() -> None:
    with pytest.raises(ValueError, match="no fault 'magic'"):
        _faults(Fault(kind="magic"))
    with pytest.raises(ValueError, match="nothing to do with eth_chainId"):
        _faults(Fault(kind="short_receipts", method="eth_chainId"))
    with pytest.raises(ConfigError, match="magic"):
        DevnodeConfig(faults=(Fault(kind="magic"),))
    with pytest.raises(ConfigError, match="magic"):
        DevnodeConfig(schedule=FaultSchedule(kinds=("magic",)))


def test_every_kind_says_in_one_line_what_it_does() -> None:
    for name, kind in KINDS.items():
        assert name.islower()
        assert kind.doc.endswith(".")
        assert "\n" not in kind.doc


def test_a_node_without_faults_has_nothing_to_ask_about() -> None:
    faults = _faults()
    assert not faults.active
    faults.add(Fault(kind="null"))
    assert faults.active
    faults.clear()
    assert not faults.active
    assert faults.meet(_call("eth_chainId")) is None


def test_a_fault_lets_the_first_pass_and_strikes_a_number_of_times() -> None:
    faults = _faults(Fault(kind="null", skip=2, times=3))
    struck = _struck(faults, _call("eth_chainId"), 8)
    assert struck == [False, False, True, True, True, False, False, False]
    assert faults.tally == {"null": 3}


def test_a_fault_that_is_spent_leaves_the_node_faultless() -> None:
    faults = _faults(Fault(kind="null", times=1))
    assert _struck(faults, _call("eth_chainId"), 2) == [True, False]
    assert not faults.active


def test_where_there_is_nothing_to_spoil_no_time_is_spent() -> None:
    faults = _faults(Fault(kind="empty_receipts", times=1))
    call = _call("eth_getBlockReceipts", "0x1")
    assert _body(faults.meet(call), call, b"[]").endswith(b'"result":[]}')
    assert faults.tally == {}
    assert _body(faults.meet(call), call, b"[{}]").endswith(b'"result":[]}')
    assert faults.tally == {"empty_receipts": 1}


def test_a_fault_of_one_method_leaves_the_others_alone() -> None:
    faults = _faults(Fault(kind="null", method="eth_getLogs"))
    assert faults.meet(_call("eth_chainId")) is None
    assert faults.meet(_call("eth_getLogs")) is not None


def test_a_fault_of_some_heights_leaves_the_others_alone() -> None:
    fault = Fault(kind="null", method="eth_getBlockByNumber", from_height=3)
    faults = _faults(msgspec.structs.replace(fault, to_height=4))
    struck = [
        _struck(faults, _call("eth_getBlockByNumber", hex(height), True), 1)
        for height in range(1, 7)
    ]
    assert struck == [[False], [False], [True], [True], [False], [False]]


def test_steering_calls_meet_no_fault() -> None:
    faults = _faults(Fault(kind="drop"), Fault(kind="null"))
    steer, ask = _call("devnode_counters"), _call("eth_chainId")
    assert faults.meet(steer) is None
    body = _body(faults.meet([steer, ask]), [steer, ask])
    assert (body.count(b'"x"'), body.count(b"null")) == (1, 1)


def test_faults_of_a_request_come_in_the_order_they_were_put() -> None:
    faults = _faults(
        Fault(kind="latency", seconds=1),
        Fault(kind="status", method="eth_getLogs"),
        Fault(kind="null"),
    )
    exchange = faults.meet([_call("eth_chainId"), _call("eth_getLogs")])
    assert exchange is not None
    acts = list(exchange.acts([b"1", b"2"]))
    assert [(act.wait, act.status) for act in acts] == [(1, 0), (0, 503)]


def _hits(schedule: FaultSchedule, requests: Iterable[Calls]) -> list[str | None]:
    """Return which kind struck at each of the requests."""
    faults = _faults(schedule=schedule)
    found: list[str | None] = []
    for calls in requests:
        before = faults.tally.copy()
        exchange = faults.meet(calls)
        if exchange is not None:
            list(exchange.acts([b"1"]))
            exchange.view()
            _body(exchange, calls, b'[{"logs":[],"blockHash":"0x1"}]')
        found.append(next(iter(faults.tally - before), None))
    return found


def test_a_schedule_hits_its_share_of_requests_with_all_its_kinds() -> None:
    calls = _call("eth_getBlockReceipts", "0x1")
    hits = _hits(FaultSchedule(seed=1, rate=0.1), [calls] * 4000)
    struck = [hit for hit in hits if hit]
    assert 320 < len(struck) < 480
    assert {"short_receipts", "http_502", "error_rate_limit", "cut", "lag"} <= {*struck}
    never = {"silence", "rate_limit", "batch_short", "null_block", "nul_text"}
    assert never.isdisjoint(struck)


def test_a_schedule_is_the_same_for_a_seed_and_another_for_another() -> None:
    def hits(seed: int) -> list[str | None]:
        schedule = FaultSchedule(seed=seed, rate=0.3, kinds=("drop", "null:times=9"))
        return _hits(schedule, [_call("eth_chainId")] * 200)

    assert hits(5) == hits(5) != hits(6)
    assert {*hits(5)} == {None, "drop", "null"}


def test_a_schedule_hits_at_most_one_call_of_a_batch_and_not_always_the_same() -> None:
    calls = [_call("eth_blockNumber") for _ in range(8)]
    schedule = FaultSchedule(seed=2, rate=1.0, kinds=("null",))
    faults = _faults(schedule=schedule)
    places = set()
    for _ in range(40):
        replies = msgspec.json.decode(_body(faults.meet(calls), calls))
        nulls = [at for at, reply in enumerate(replies) if reply["result"] is None]
        assert len(nulls) == 1
        places.update(nulls)
    assert len(places) > 4
    assert faults.tally == {"null": 40}


def test_a_schedule_falls_back_to_a_kind_that_has_something_to_spoil() -> None:
    call = _call("eth_getBlockReceipts", "0x1")
    schedule = FaultSchedule(rate=1.0, kinds=("short_receipts", "truncated"))
    faults = _faults(schedule=schedule)
    for _ in range(20):
        _body(faults.meet(call), call, b"[]")
    assert faults.tally == {"truncated": 20}
