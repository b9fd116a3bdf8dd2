"""Lies about receipts and logs."""

from __future__ import annotations

from typing import Any

from indexer.devnode.faults.fault import Fault
from indexer.devnode.faults.kind import LOGS, RECEIPT, RECEIPTS, CallKind, Memory, Met
from indexer.devnode.faults.lies import Json, lie, logs_of
from indexer.devnode.messages import RpcFailure


def _empty(_fault: Fault, result: list[Json]) -> list[Json] | bool:
    return [] if result else False


def _short(fault: Fault, result: list[Json]) -> bool | None:
    if not result:
        return False
    del result[-fault.count :]
    return None


def _partial_logs(fault: Fault, result: Any) -> bool | None:  # noqa: ANN401 - JSON
    found = logs_of(result)
    if not found:
        return False
    del found[-1][-fault.count :]
    return None


def _doubled_index(_fault: Fault, result: Any) -> bool | None:  # noqa: ANN401 - JSON
    logs = [log for listed in logs_of(result) for log in listed]
    if len(logs) < 2:
        return False
    logs[-1]["logIndex"] = logs[-2]["logIndex"]
    return None


def _doubled_log(_fault: Fault, result: Any) -> bool | None:  # noqa: ANN401 - JSON
    found = logs_of(result)
    if not found:
        return False
    found[-1].append(found[-1][-1])
    return None


def _local_index(_fault: Fault, result: list[Json]) -> bool | None:
    changed = False
    for logs in logs_of(result):
        for position, log in enumerate(logs):
            changed = changed or log["logIndex"] != hex(position)
            log["logIndex"] = hex(position)
    return None if changed else False


def _result_limit(fault: Fault, _memory: Memory, met: Met) -> RpcFailure | None:
    if isinstance(met.outcome, RpcFailure):
        return None
    # Each log has one such member, and no value of it holds a quotation mark.
    if met.outcome.count(b'"topics":') <= fault.count:
        return None
    text = fault.message.replace("{count}", str(fault.count))
    return RpcFailure(fault.code, text)


RECEIPT_KINDS = {
    "empty_receipts": lie(
        "The receipts of a block with transactions are [].", RECEIPTS, _empty
    ),
    "short_receipts": lie(
        "The last `count` receipts (1) are missing.", RECEIPTS, _short, count=1
    ),
    "empty_logs": lie("eth_getLogs is [] though there are logs.", LOGS, _empty),
    "partial_logs": lie(
        "The last `count` logs (1) are missing, from a receipt or from eth_getLogs.",
        RECEIPTS | RECEIPT | LOGS,
        _partial_logs,
        count=1,
    ),
    "doubled_log_index": lie(
        "The last two logs have one logIndex.",
        RECEIPTS | RECEIPT | LOGS,
        _doubled_index,
    ),
    "doubled_log": lie(
        "The last log comes twice.", RECEIPTS | RECEIPT | LOGS, _doubled_log
    ),
    "local_log_index": lie(
        "logIndex counts from 0 in each transaction.", RECEIPTS, _local_index
    ),
    "log_result_limit": CallKind(
        doc="eth_getLogs with more than `count` results (10,000) is an error.",
        spoil=_result_limit,
        methods=LOGS,
        defaults={
            "count": 10_000,
            "code": -32005,
            "message": "query returned more than {count} results",
        },
    ),
}
