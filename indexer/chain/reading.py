"""What an answer says about each request of a batch, or about all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Raw

from indexer.chain.envelope import Call, Fault
from indexer.chain.envelope import match as matched_replies
from indexer.chain.errors_table import Action, classify
from indexer.chain.rpc import Answer, MaybeTooLarge, Transport
from indexer.errors import (
    InconsistentResponse,
    IndexerError,
    PrunedHistory,
    RangeTooLarge,
    RpcError,
    RpcRateLimited,
    RpcUnavailable,
)

_Problem: TypeAlias = (
    RpcError | RpcUnavailable | RpcRateLimited | RangeTooLarge | PrunedHistory
)


def read(
    transport: Transport, calls: Sequence[Call], answer: Answer, first_id: int
) -> list[Raw | IndexerError]:
    """Return the outcome of each request, whose ids count from ``first_id``.

    Raises what concerns all of them: RpcUnavailable, RpcRateLimited, RangeTooLarge,
    for a batch MaybeTooLarge where halves may tell more, and for a single request
    InconsistentResponse.
    """
    name = transport.name
    try:
        matched = matched_replies(answer.body, count=len(calls), first_id=first_id)
    except InconsistentResponse as error:
        if len(calls) > 1:
            raise MaybeTooLarge(f"{name}: {error}", suggested=len(calls) // 2) from None
        raise InconsistentResponse(f"{name}: {error}") from None
    except RpcUnavailable as error:
        raise _no_json_rpc(transport, calls, answer, error) from None
    if isinstance(matched, Fault):
        raise _error_of_all(name, calls, matched, answer.status, answer.retry_after)
    outcomes: list[Raw | IndexerError] = []
    for call, outcome in zip(calls, matched, strict=True):
        if not isinstance(outcome, Fault):
            outcomes.append(outcome)
            continue
        problem = _problem(name, call, outcome, answer.status, answer.retry_after)
        if isinstance(problem, RangeTooLarge | RpcRateLimited):
            raise problem
        outcomes.append(problem)
    return outcomes


def _no_json_rpc(
    transport: Transport, calls: Sequence[Call], answer: Answer, error: RpcUnavailable
) -> IndexerError:
    """Return the error for an answer that is not JSON-RPC at all."""
    status = answer.status
    if status is None or 200 <= status < 300:
        if len(calls) > 1:
            # Cut off in the middle, maybe because it was too long.
            problem = f"{transport.name} failed: {error}"
            return MaybeTooLarge(problem, suggested=len(calls) // 2)
        return transport.unavailable(f"failed: {error}")
    if status >= 500:
        return transport.unavailable(f"failed with HTTP status {status}")
    # The status is what there is to go by.
    fault = Fault(None, f"HTTP status {status}")
    return _error_of_all(transport.name, calls, fault, status, answer.retry_after)


def _error_of_all(
    name: str,
    calls: Sequence[Call],
    fault: Fault,
    status: int | None,
    retry_after: float | None,
) -> IndexerError:
    """Return the error for a fault that stands for a whole batch.

    Whoever knows no batches, or none so large, says so in many ways; halves find out
    what is meant.
    """
    problem = _problem(name, calls[0], fault, status, retry_after)
    is_plain = isinstance(problem, RpcRateLimited | RangeTooLarge | PrunedHistory)
    server_failed = status is not None and status >= 500
    action = classify(status, fault.code, fault.text)
    if len(calls) == 1 or is_plain or server_failed or action is Action.FAILOVER:
        return problem
    halves = MaybeTooLarge(str(problem), suggested=len(calls) // 2)
    halves.__cause__ = problem
    return halves


def _problem(
    name: str, call: Call, fault: Fault, status: int | None, retry_after: float | None
) -> _Problem:
    """Turn a fault into the exception that says what to do.

    The exception is caused by an RpcError, or is one.
    """
    cause = RpcError(call.method, fault.code, fault.text)
    text = f"{name}: {cause}"
    error: _Problem
    match classify(status, fault.code, fault.text):
        case Action.BACKOFF:
            error = RpcRateLimited(text, retry_after=retry_after)
        case Action.SPLIT:
            error = RangeTooLarge(text)
        case Action.PRUNED:
            error = PrunedHistory(text)
        case Action.FATAL | Action.UNSUPPORTED:
            return cause
        case _:
            error = RpcUnavailable(text)
    error.__cause__ = cause
    return error
