"""One node: calls and batches within what it has shown it can take."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from enum import Enum
from hashlib import sha256
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from msgspec import Raw

from indexer.chain.attempt import Attempt
from indexer.chain.envelope import Call, encode
from indexer.chain.gate import Gate
from indexer.chain.health import Breaker, Trust
from indexer.chain.limits import (
    LARGEST_BATCH,
    BatchSize,
    Clock,
    InFlight,
)
from indexer.chain.observer import NoRpcObserver, RpcObserver, count_requests
from indexer.chain.pace import Pace
from indexer.chain.reading import read
from indexer.chain.rpc import open_transport
from indexer.errors import (
    IndexerError,
    RpcError,
    RpcRateLimited,
    RpcUnavailable,
)

# How many requests are on their way at first.
CONCURRENCY: Final = InFlight.FIRST
TIMEOUT_SECONDS: Final = 60.0
# How long a request waits, all in all, for a node that asks for fewer of them. What
# takes longer is for the caller to turn elsewhere or to come back.
PATIENCE_SECONDS: Final = 5.0
_LATENCY_WEIGHT: Final = 0.1

Outcome: TypeAlias = Raw | IndexerError


class ReceiptsWay(Enum):
    """How an endpoint gives the receipts of a block."""

    BY_HASH = "eth_getBlockReceipts by hash"
    BY_NUMBER = "eth_getBlockReceipts by number"
    BY_TRANSACTION = "eth_getTransactionReceipt"


class Endpoint:
    """One URL, with what was learned about it.

    ``receipts_way`` is remembered by whoever fetches receipts, ``is_checked`` by
    whoever compares the chain, ``history_from`` is the lowest height it may have
    everything of.
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
        patience: float = PATIENCE_SECONDS,
        clock: Clock = time.monotonic,
    ) -> None:
        """Raises ConfigError for a URL that cannot be one; does no I/O.

        ``timeout`` and ``patience`` are in seconds, ``rps`` in requests a second,
        each item of a batch counted; ``concurrency`` is where the number of requests
        on their way begins.
        """
        self.transport: Final = open_transport(url, headers or {}, timeout)
        self.key: Final = _key(url)
        self.receipts_way = ReceiptsWay.BY_HASH
        self.is_checked = False
        self.history_from = 0
        self.latency_seconds = 0.0
        self.last_error: str | None = None
        self.breaker: Final = Breaker(clock)
        self.trust: Final = Trust(clock)
        self.pace: Final = Pace(rps, clock)
        self.observer: RpcObserver = NoRpcObserver()
        self._batches: Final = BatchSize(clock, largest=largest_batch)
        self._in_flight: Final = InFlight(clock, concurrency)
        self._gate: Final = Gate(self.pace, self._in_flight)
        self._patience: Final = patience
        self._clock: Final = clock
        self._next_id = 1

    def __repr__(self) -> str:
        return f"<Endpoint {self.name}>"

    @property
    def name(self) -> str:
        """What it is called in logs, errors and metrics; no secret is in it."""
        return self.transport.name

    def tell_apart(self) -> None:
        """Add to the name what tells two keys of one host apart."""
        self.transport.name += self.key[self.key.rindex(" ") :]

    @property
    def is_busy(self) -> bool:
        """Whether another request would have to wait for its turn."""
        return self._gate.is_full or self.pace.wait_seconds() > 0

    async def call(self, method: str, params: Sequence[object]) -> Raw:
        """Return the raw result of one request.

        Raises RpcUnavailable, RpcRateLimited, RangeTooLarge, InconsistentResponse,
        PrunedHistory, and RpcError for what will not work however often it is asked.
        """
        [result] = await self.batch([Call(method, params)])
        return result

    async def batch(self, calls: Sequence[Call]) -> list[Raw]:
        """Return the raw result of each request; raises as :meth:`call`."""
        results: list[Raw] = []
        for outcome in await self.outcomes(calls):
            if isinstance(outcome, IndexerError):
                raise outcome
            results.append(outcome)
        return results

    async def outcomes(self, calls: Sequence[Call]) -> list[Outcome]:
        """Return the raw result of each request, or why there is none.

        Sent in as many batches at once as the endpoint takes. Several requests may
        have one and the same error: what went wrong with their batch.
        """
        return await Attempt(self).outcomes(calls) if calls else []

    async def close(self) -> None:
        """Close the connections."""
        await self.transport.close()

    def learned(self) -> dict[str, object]:
        """Return the limits that were found, to be restored by another process."""
        return {
            **self._batches.learned(),
            **self.pace.learned(),
            "in_flight": self._in_flight.limit,
            "latency_seconds": round(self.latency_seconds, 4),
            "receipts_way": self.receipts_way.value,
            "history_from": self.history_from,
        }

    def restore(self, limits: Mapping[str, object]) -> None:
        """Begin where another process ended."""
        self._batches.restore(limits)
        self.pace.restore(limits)
        ways = {way.value: way for way in ReceiptsWay}
        self.receipts_way = ways.get(str(limits.get("receipts_way")), self.receipts_way)

    def fitting(self, method: str) -> int:
        """Return how many requests of a method to send at once."""
        size = self._batches.size(method)
        most = self.pace.largest_batch
        return size if most is None else min(size, most)

    def refused(self, method: str, requests: int) -> None:
        """Learn from a batch that the node called too big."""
        self._batches.refused(method, requests)

    def suspected_of(self, method: str, requests: int) -> None:
        """Learn from a batch that failed without a reason, while its halves did not."""
        self._batches.suspected_of(method, requests)

    def may_wait(self) -> bool:
        """Tell whether a node that asks for fewer requests is worth waiting for."""
        return self.pace.pause_seconds() <= self._patience

    async def send_batch(self, calls: Sequence[Call]) -> list[Outcome]:
        """Send one batch, in its turn; raises what concerns all of it."""
        method = calls[0].method
        async with self._gate.passing(len(calls)):
            first_id = self._next_id
            self._next_id += len(calls)
            sent_at = self._clock()
            received = 0
            try:
                answer = await self.transport.send(
                    encode(calls, first_id), first_id=first_id, count=len(calls)
                )
                received = len(answer.body)
                outcomes = read(self.transport, calls, answer, first_id)
            except IndexerError as error:
                self._asked(calls, type(error).__name__, received, sent_at)
                self._erred(calls, error, sent_at)
                raise
        failed = any(isinstance(each, IndexerError) for each in outcomes)
        self._asked(calls, "error" if failed else "ok", received, sent_at)
        self.breaker.succeeded()
        self.pace.accepted(len(calls))
        self._in_flight.succeeded(received)
        self._batches.fitted(method, len(calls), received)
        self._note_latency(self._clock() - sent_at)
        return outcomes

    def _erred(
        self, calls: Sequence[Call], error: IndexerError, sent_at: float
    ) -> None:
        """Learn from what concerns a batch as a whole."""
        self.last_error = str(error)
        if isinstance(error, RpcRateLimited):
            self.pace.limited(sent_at, retry_after=error.retry_after)
            self._in_flight.suffered(sent_at)
            if not self.may_wait():
                self.breaker.failed(sent_at, at_least=error.retry_after)
        elif isinstance(error, RpcUnavailable):
            # An error object is an answer: the node is there.
            if not isinstance(error.__cause__, RpcError):
                self.breaker.failed(sent_at)
            self._in_flight.suffered(sent_at)
            if self._clock() - sent_at > self.transport.timeout / 2:
                # It may have been too much to answer in time.
                self._batches.slow(len(calls))

    def _note_latency(self, seconds: float) -> None:
        known = self.latency_seconds or seconds
        self.latency_seconds = known + _LATENCY_WEIGHT * (seconds - known)

    def _asked(
        self, calls: Sequence[Call], outcome: str, received: int, sent_at: float
    ) -> None:
        count_requests(len(calls))
        self.observer.asked(
            self.name,
            calls[0].method,
            outcome,
            requests=len(calls),
            received=received,
            seconds=self._clock() - sent_at,
        )


def _key(url: str) -> str:
    """Return a name that is the URL's own and gives none of its secrets away."""
    digest = sha256(url.encode()).hexdigest()[:10]
    host = urlsplit(url).hostname if "://" in url else "ipc"
    return f"{host or 'ipc'} #{digest}"
