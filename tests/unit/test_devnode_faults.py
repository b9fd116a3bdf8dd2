"""Faults strike whom and as often as they are told to."""

from __future__ import annotations

from indexer.devnode.faults import Fault, Faults


def test_a_node_without_faults_has_nothing_to_ask_about() -> None:
    faults = Faults()
    assert not faults.active
    faults.add(Fault(kind="null"))
    assert faults.active
    faults.clear()
    assert not faults.active
    assert faults.answer("eth_chainId") is None


def test_a_fault_lets_the_first_pass_and_strikes_a_number_of_times() -> None:
    fault = Fault(kind="error", skip=2, times=3)
    faults = Faults([fault])
    struck = [faults.answer("eth_chainId") is fault for _ in range(8)]
    assert struck == [False, False, True, True, True, False, False, False]


def test_a_fault_of_one_method_leaves_the_others_alone() -> None:
    faults = Faults([Fault(kind="null", method="eth_getLogs")])
    assert faults.answer("eth_chainId") is None
    assert faults.answer("eth_getLogs") is not None


def test_faults_of_a_request_look_at_all_its_methods_and_come_in_order() -> None:
    slow = Fault(kind="latency", seconds=1)
    refused = Fault(kind="status", method="eth_getLogs")
    faults = Faults([slow, refused, Fault(kind="null")])
    assert faults.before({"eth_chainId"}) == [slow]
    assert faults.before({"eth_chainId", "eth_getLogs"}) == [slow, refused]


def test_faults_of_requests_and_of_calls_are_counted_apart() -> None:
    faults = Faults([Fault(kind="drop", times=1), Fault(kind="null", times=1)])
    assert faults.answer("eth_chainId") is not None
    assert len(faults.before({"eth_chainId"})) == 1
    assert faults.answer("eth_chainId") is None
    assert faults.before({"eth_chainId"}) == []
