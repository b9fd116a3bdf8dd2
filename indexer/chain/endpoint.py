"""One node: calls and batches within what it has shown it can take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from msgspec import Raw

from indexer.chain.envelope import Call, Fault, encode, match
from indexer.chain.errors_table import Action, classify
from indexer.chain.limits import LARGEST_BATCH, BatchSize, Breaker, Clock, Pace
from indexer.chain.observer import NoRpcObserver, RpcObserver
from indexer.chain.rpc import Answer, open_transport
from indexer.errors import (
    InconsistentResponse,
    RangeTooLarge,
    RpcError,
    RpcRateLimited,
    RpcUnavailable,
)

# Enough to hide 30 ms of latency behind decoding; few enough that a small node is
# not drowned.
CONCURRENCY: Final = 8
TIMEOUT_SECONDS: Final = 60.0


class ReceiptsWay(Enum):
    """How an endpoint gives the receipts of a block."""

    BY_HASH = "eth_getBlockReceipts by hash"
    BY_NUMBER = "eth_getBlockReceipts by number"
    BY_TRANSACTION = "eth_getTransactionReceipt"


class Endpoint:
    """One URL, with what was learned about it.

    ``receipts_way`` is remembered by whoever fetches receipts, ``is_checked`` by
    whoever compares the chain.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT_SECONDS,
        rps: float | None = None,
        concurrency: int = CONCURRENCY,
        largest_batch: int = LARGEST_BATCH,
        clock: Clock = time.monotonic,
    ) -> None:
        """Raises ConfigError for a URL that cannot be one; does no I/O.

        ``timeout`` is in seconds, ``rps`` in requests a second, each item of a
        batch counted.
        """
        self.transport: Final = open_transport(url, headers or {}, timeout)
        self.name: Final = self.transport.name
        self.receipts_way = ReceiptsWay.BY_HASH
        self.is_checked = False
        self.breaker: Final = Breaker(clock)
        self.observer: RpcObserver = NoRpcObserver()
        self._batches = BatchSize(largest=largest_batch)
        self._pace = Pace(rps, clock)
        self._clock = clock
        self._slots = asyncio.Semaphore(concurrency)
        self._next_id = 1

    def __repr__(self) -> str:
        return f"<Endpoint {self.name}>"

    async def call(self, method: str, params: Sequence[object]) -> Raw:
        """Return the raw result of one request.

        Raises RpcUnavailable, RpcRateLimited, RangeTooLarge, InconsistentResponse,
        and RpcError for what will not work however often it is asked.
        """
        [outcome] = await self.outcomes([Call(method, params)])
        if isinstance(outcome, RpcError):
            raise outcome
        return outcome

    async def batch(self, calls: Sequence[Call]) -> list[Raw]:
        """Return the raw result of each request; raises as :meth:`call`."""
        results: list[Raw] = []
        for outcome in await self.outcomes(calls):
            if isinstance(outcome, RpcError):
                raise outcome
            results.append(outcome)
        return results

    async def outcomes(self, calls: Sequence[Call]) -> list[Raw | RpcError]:
        """Return the raw result of each request, or the error that is its own.

        Sent in as many batches at once as the endpoint takes. Raises as
        :meth:`call` for what concerns more than one request.
        """
        if 0 < len(calls) <= self._batches.size(calls[0].method):
            return await self._part(calls)
        parts: list[asyncio.Task[list[Raw | RpcError]]] = []
        try:
            async with asyncio.TaskGroup() as group:
                start = 0
                while start < len(calls):
                    size = self._batches.size(calls[start].method)
                    part = calls[start : start + size]
                    parts.append(group.create_task(self._part(part)))
                    start += size
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        return [outcome for part in parts for outcome in part.result()]

    async def close(self) -> None:
        """Close the connections."""
        await self.transport.close()

    async def _part(self, calls: Sequence[Call]) -> list[Raw | RpcError]:
        """Send a batch, in smaller ones where it is too big."""
        try:
            return await self._send(calls)
        except RangeTooLarge:
            if len(calls) == 1:
                raise
            self._batches.refused(len(calls))
        half = len(calls) // 2
        return await self._part(calls[:half]) + await self._part(calls[half:])

    async def _send(self, calls: Sequence[Call]) -> list[Raw | RpcError]:
        async with self._slots:
            wait = self._pace.wait_seconds(len(calls))
            if wait:
                await asyncio.sleep(wait)
            first_id = self._next_id
            self._next_id += len(calls)
            sent_at = self._clock()
            received = 0
            try:
                answer = await self.transport.send(
                    encode(calls, first_id), first_id=first_id, count=len(calls)
                )
                received = len(answer.body)
                outcomes = self._read(calls, answer, first_id)
            except RpcRateLimited as error:
                self._asked(calls, type(error).__name__, received, sent_at)
                self.breaker.failed(sent_at, at_least=error.retry_after)
                raise
            except RpcUnavailable as error:
                self._asked(calls, type(error).__name__, received, sent_at)
                # An error object is an answer: the node is there.
                if not isinstance(error.__cause__, RpcError):
                    self._not_answered(len(calls), sent_at)
                raise
            except (RangeTooLarge, InconsistentResponse) as error:
                self._asked(calls, type(error).__name__, received, sent_at)
                raise
        refused = any(isinstance(each, RpcError) for each in outcomes)
        self._asked(calls, "error" if refused else "ok", received, sent_at)
        self.breaker.succeeded()
        self._batches.fitted(calls[0].method, len(calls), len(answer.body))
        return outcomes

    def _asked(
        self, calls: Sequence[Call], outcome: str, received: int, sent_at: float
    ) -> None:
        self.observer.asked(
            self.name,
            calls[0].method,
            outcome,
            requests=len(calls),
            received=received,
            seconds=self._clock() - sent_at,
        )

    def _not_answered(self, count: int, sent_at: float) -> None:
        self.breaker.failed(sent_at)
        if self._clock() - sent_at > self.transport.timeout / 2:
            # It may have been too much to answer in time.
            self._batches.refused(count)

    def _read(
        self, calls: Sequence[Call], answer: Answer, first_id: int
    ) -> list[Raw | RpcError]:
        method = calls[0].method
        matched: list[Raw | Fault] | Fault
        try:
            matched = match(answer.body, count=len(calls), first_id=first_id)
        except InconsistentResponse as error:
            raise InconsistentResponse(f"{self.name}: {error}") from None
        except RpcUnavailable as error:
            if answer.status is None or 200 <= answer.status < 300:
                raise self.transport.unavailable(f"failed: {error}") from None
            # Not JSON-RPC at all, so the status is what there is to go by.
            matched = Fault(None, f"HTTP status {answer.status}")
        if isinstance(matched, Fault):
            raise self._error(method, matched, answer, batch=len(calls))
        outcomes: list[Raw | RpcError] = []
        for call, outcome in zip(calls, matched, strict=True):
            if isinstance(outcome, Fault):
                problem = self._error(call.method, outcome, answer)
                if not isinstance(problem, RpcError):
                    raise problem
                outcomes.append(problem)
            else:
                outcomes.append(outcome)
        return outcomes

    def _error(
        self, method: str, fault: Fault, answer: Answer, *, batch: int = 1
    ) -> RpcError | RpcUnavailable | RpcRateLimited | RangeTooLarge:
        """Turn a fault into the exception that says what to do.

        The exception is caused by an RpcError, or is one. ``batch`` is how many
        requests the fault is about.
        """
        cause = RpcError(method, fault.code, fault.text)
        action = classify(answer.status, fault.code, fault.text)
        text = f"{self.name}: {cause}"
        error: RpcUnavailable | RpcRateLimited | RangeTooLarge
        if action is Action.BACKOFF:
            error = RpcRateLimited(text, retry_after=answer.retry_after)
        elif action is Action.SPLIT or (batch > 1 and _is_refusal(answer, action)):
            error = RangeTooLarge(text, suggested=max(1, batch // 2))
        elif action in (Action.FATAL, Action.UNSUPPORTED):
            return cause
        else:
            error = RpcUnavailable(text)
        error.__cause__ = cause
        return error


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _is_refusal(answer: Answer, action: Action) -> bool:
    """Tell whether a node may have refused a batch for being one.

    Whoever knows no batches, or none so large, says so in many ways; halves find out
    what is meant.
    """
    server_failed = answer.status is not None and answer.status >= 500
    return action is not Action.FAILOVER and not server_failed
