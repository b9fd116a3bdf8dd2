"""Several nodes of one chain: which is asked, and who stands in for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

from indexer.chain.decode import decode_header, decode_quantity
from indexer.chain.endpoint import CONCURRENCY, TIMEOUT_SECONDS, Endpoint
from indexer.errors import (
    ChainDataError,
    ConfigError,
    NotYetAvailable,
    RpcError,
    RpcRateLimited,
    RpcUnavailable,
    WrongChain,
)

__all__ = ["ChainIdentity", "Endpoint", "Endpoints"]

T = TypeVar("T")

# A load balancer's hiccup is waited out here; an outage is the caller's to snooze.
_PATIENCE_SECONDS: Final = 3.0
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
        left = list(self.all)
        patience = _PATIENCE_SECONDS
        failure: Exception | None = None
        while True:
            endpoint = min(left, key=_wait_seconds)
            wait = endpoint.breaker.wait_seconds()
            if wait > patience:
                raise failure or RpcUnavailable(
                    f"{endpoint.name} failed and is left alone for {wait:.1f} s"
                )
            if wait:
                patience -= wait
                await asyncio.sleep(wait)
            try:
                await self._check(endpoint)
                return await work(endpoint)
            except (RpcUnavailable, RpcRateLimited) as error:
                # Its breaker says when it may be asked again.
                failure = error
                if isinstance(error.__cause__, RpcError):
                    left.remove(endpoint)
            except (ChainDataError, RpcError) as error:
                failure = error
                left.remove(endpoint)
            if not left:
                raise failure

    async def ask(
        self, endpoint: Endpoint, work: Callable[[Endpoint], Awaitable[T]]
    ) -> T:
        """Do ``work`` with this endpoint and no other.

        Raises what it fails with, and WrongChain where it is of another chain.
        """
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
        if self._expected is None or not any(each.is_checked for each in self.all):
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


def _wait_seconds(endpoint: Endpoint) -> float:
    return endpoint.breaker.wait_seconds()
