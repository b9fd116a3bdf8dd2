"""What recorded errors of real providers are taken to mean."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from indexer.chain.envelope import Fault, match
from indexer.chain.errors_table import Action, classify
from indexer.errors import RpcUnavailable
from tests.support.fixtures import FOLDER, load, needs_fixtures

RECORDED: list[dict[str, Any]] = load("errors.json") if FOLDER.is_dir() else []

BY_KIND = {
    "too_many_results": Action.SPLIT,
    "log_response_size": Action.SPLIT,
    "block_range": Action.SPLIT,
    "block_range_fragment": Action.SPLIT,
    "batch_limit": Action.SPLIT,
    "too_many_addresses": Action.FATAL,
    "receipts_mismatch": Action.FATAL,
    "rate_limit": Action.BACKOFF,
    "quota": Action.FAILOVER,
    "quota_permanent": Action.FAILOVER,
    "method_disabled": Action.FAILOVER,
    "pruned_history": Action.PRUNED,
    "missing_state": Action.PRUNED,
    "header_not_found": Action.RETRY,
    "block_not_found": Action.RETRY,
    "internal": Action.RETRY,
    "method_not_found": Action.UNSUPPORTED,
}
# An outage among the recorded fragments about ranges.
NO_BACKEND = "no backend is currently healthy to serve traffic"
NOT_JSON_RPC = {"non_json_200", "html_502", "html_5xx", "json_not_jsonrpc"}
# Answers, not errors: what to make of them is the checks' business.
RESULTS = {"silent_empty", "null_receipt"}


def _fault(body: str) -> Fault:
    try:
        reply = json.loads(body)
    except ValueError:
        return Fault(None, body)
    matched = match(body.encode(), count=1, first_id=reply.get("id", 1))
    fault = matched if isinstance(matched, Fault) else matched[0]
    assert isinstance(fault, Fault)
    return fault


@needs_fixtures
@pytest.mark.parametrize(
    "entry",
    [pytest.param(e, id=f"{i}-{e['provider']}") for i, e in enumerate(RECORDED)],
)
def test_a_recorded_error_is_taken_for_what_it_is(entry: dict[str, Any]) -> None:
    body, kind = entry["body"], entry["kind"]
    if kind in NOT_JSON_RPC:
        with pytest.raises(RpcUnavailable):
            match(body.encode(), count=1, first_id=1)
    elif kind in RESULTS:
        reply = json.loads(body)
        outcomes = match(body.encode(), count=1, first_id=reply["id"])
        assert not isinstance(outcomes, Fault)
        assert [type(one) for one in outcomes] == [Raw]
    else:
        fault = _fault(body)
        expected = Action.FAILOVER if body == NO_BACKEND else BY_KIND[kind]
        assert classify(entry["http_status"], fault.code, fault.text) is expected


@pytest.mark.parametrize(
    ("status", "code", "text", "action"),
    [
        (429, None, "HTTP status 429", Action.BACKOFF),
        (413, None, "HTTP status 413", Action.SPLIT),
        (402, None, "HTTP status 402", Action.FAILOVER),
        (502, None, "HTTP status 502", Action.RETRY),
        (200, -32007, "50/second request limit reached", Action.BACKOFF),
        (200, -32016, "over rate limit", Action.BACKOFF),
        (200, -32003, "Response is too big", Action.SPLIT),
        (200, -32600, "batch too large", Action.SPLIT),
        (200, -32000, "finalized block not found", Action.UNSUPPORTED),
        (200, -32602, "invalid argument 0: hex string of odd length", Action.FATAL),
        (200, 123456, "something nobody knows", Action.RETRY),
        (None, None, "", Action.RETRY),
    ],
)
def test_errors_that_were_only_read_about(
    status: int | None, code: int | None, text: str, action: Action
) -> None:
    assert classify(status, code, text) is action
