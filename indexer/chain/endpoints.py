"""Several nodes of one chain: which is asked, and who stands in for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

from indexer.chain.decode import decode_header, decode_quantity
from indexer.chain.endpoint import CONCURRENCY, TIMEOUT_SECONDS, Endpoint
from indexer.errors import (
    ChainDataError,
    ConfigError,
    NotYetAvailable,
    RangeTooLarge,
    RpcError,
    RpcRateLimited,
    RpcUnavailable,
    WrongChain,
)

__all__ = ["ChainIdentity", "Endpoint", "Endpoints"]

T = TypeVar("T")

# A load balancer's hiccup is waited out here; an outage is the caller's to snooze.
PATIENCE_SECONDS: Final = 3.0
# An endpoint that takes so much longer than the quickest stands behind it, provided
# that it is more than noise.
_SLOWER: Final = 4.0
_JITTER: Final = 0.05
_GENESIS: Final = "eth_getBlockByNumber"


class ChainIdentity(NamedTuple):
    """Which chain it is."""

    chain_id: int
    genesis_hash: bytes

    def __str__(self) -> str:
        return f"chain {self.chain_id} with genesis 0x{self.genesis_hash.hex()}"


class Endpoints:
    """The nodes a command was given, in the order of preference."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self.all: Final = tuple(endpoints)
        names = Counter(each.name for each in self.all)
        for each in self.all:
            if names[each.name] > 1:
                each.tell_apart()
        self.patience = PATIENCE_SECONDS
        self._expected: ChainIdentity | None = None

    @classmethod
    def from_urls(
        cls,
        urls: Sequence[str],
        *,
        headers: Mapping[str, str] | None = None,
        rps: float | None = None,
        timeout: float = TIMEOUT_SECONDS,
        concurrency: int = CONCURRENCY,
    ) -> Self:
        """Make an endpoint a URL; raises ConfigError for a bad one. Does no I/O.

        ``timeout`` is in seconds; ``rps`` and ``concurrency`` are per endpoint.
        """
        if not urls:
            raise ConfigError("no RPC URL is given")
        return cls(
            [
                Endpoint(
                    url,
                    headers=headers,
                    rps=rps,
                    timeout=timeout,
                    concurrency=concurrency,
                )
                for url in urls
            ]
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        for endpoint in self.all:
            await endpoint.close()

    async def run(self, work: Callable[[Endpoint], Awaitable[T]]) -> T:
        """Do all of ``work`` with one endpoint, and anew with another if it fails.

        So whatever is asked about one block comes from one node (C7). Raises what
        the last endpoint failed with; WrongChain as soon as one is of another chain.
        """
        failed: set[Endpoint] = set()
        patience = self.patience
        failure: Exception | None = None
        while len(failed) < len(self.all):
            endpoint = self.best(failed)
            if endpoint.breaker.wait_seconds():
                patience = await wait_for(endpoint, patience, failure)
                continue
            try:
                return await self.ask(endpoint, work)
            except (RpcUnavailable, RpcRateLimited) as error:
                # Its breaker says when it may be asked again.
                failure = error
                if isinstance(error.__cause__, RpcError):
                    failed.add(endpoint)
            except (ChainDataError, RpcError, RangeTooLarge) as error:
                failure = error
                failed.add(endpoint)
        raise failure or RpcUnavailable("no RPC endpoint is given")

    def best(self, without: Collection[Endpoint] = (), *, lowest: int = 0) -> Endpoint:
        """Return the endpoint to ask next, none of ``without`` if there are others.

        Among those that answer, are not in disgrace and have the history from
        ``lowest`` on, the first that has room, in the order of preference.
        """
        candidates = [each for each in self.all if each not in without] or self.all

        def rank(endpoint: Endpoint) -> tuple[float, bool, bool, bool, bool]:
            return (
                endpoint.breaker.wait_seconds(),
                endpoint.history_from > lowest,
                endpoint.trust.is_lost,
                self._is_slow(endpoint),
                endpoint.is_busy,
            )

        return min(candidates, key=rank)

    def _is_slow(self, endpoint: Endpoint) -> bool:
        known = [each.latency_seconds for each in self.all if each.latency_seconds]
        return endpoint.latency_seconds > _SLOWER * min(known, default=0.0) + _JITTER

    async def ask(
        self, endpoint: Endpoint, work: Callable[[Endpoint], Awaitable[T]]
    ) -> T:
        """Do ``work`` with this endpoint and no other.

        Raises what it fails with, and WrongChain where it is of another chain.
        """
        endpoint.breaker.probing()
        await self._check(endpoint)
        return await work(endpoint)

    async def check_chain(self, expected: ChainIdentity | None = None) -> ChainIdentity:
        """Compare chain id and genesis of every endpoint; return what they are.

        One that does not answer now is compared before its first use. Raises
        WrongChain, and RpcUnavailable where none answers.
        """
        self._expected = expected
        failure: Exception | None = None
        for endpoint in self.all:
            endpoint.is_checked = False
            try:
                await self._check(endpoint)
            except (RpcUnavailable, RpcRateLimited, ChainDataError, RpcError) as error:
                failure = error
        if not any(each.is_checked for each in self.all):
            # It may have been a hiccup; this asks again for as long as one lasts.
            await self.run(_nothing)
        if self._expected is None:
            raise failure or RpcUnavailable("no RPC endpoint answers")
        return self._expected

    async def _check(self, endpoint: Endpoint) -> None:
        if endpoint.is_checked:
            return
        found = await _identify(endpoint)
        if self._expected is None:
            self._expected = found
        if found != self._expected:
            raise WrongChain(
                f"{endpoint.name} serves {found}, but {self._expected} is expected; "
                "give an RPC URL of that chain, or another --schema for this one"
            )
        endpoint.is_checked = True


async def _nothing(_endpoint: Endpoint) -> None:
    """Ask for nothing but what is asked before anything."""


async def _identify(endpoint: Endpoint) -> ChainIdentity:
    chain_id = decode_quantity(
        await endpoint.call("eth_chainId", []), method="eth_chainId"
    )
    header = decode_header(
        await endpoint.call(_GENESIS, ["0x0", False]), number=0, method=_GENESIS
    )
    if header is None:
        raise NotYetAvailable(
            f"{endpoint.name} has no block 0, so which chain it serves is unknown",
            block_number=0,
        )
    return ChainIdentity(chain_id, header.hash)


async def wait_for(
    endpoint: Endpoint, patience: float, failure: Exception | None
) -> float:
    """Wait until an endpoint may be asked; return what is left of the patience.

    Raises ``failure``, or RpcUnavailable, where that takes longer.
    """
    wait = endpoint.breaker.wait_seconds()
    if wait > patience:
        raise failure or RpcUnavailable(
            f"{endpoint.name} failed and is left alone for {wait:.1f} s"
        )
    await asyncio.sleep(wait)
    return patience - wait
