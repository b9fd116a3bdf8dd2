"""Connect to the nodes that are named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from indexer.chain.endpoints import Endpoints
from indexer.config import Config
from indexer.errors import ConfigError


def check_nodes(config: Config) -> None:
    """Raise ConfigError where no node is named or a URL cannot be one; no I/O."""
    if not config.rpc_url:
        raise ConfigError(
            "no node is named: give --rpc-url (or set INDEXER_RPC_URL), for example "
            "--rpc-url http://127.0.0.1:8545"
        )
    _endpoints(config)


def _endpoints(config: Config) -> Endpoints:
    return Endpoints.from_urls(
        config.rpc_url, headers=config.rpc_headers, rps=config.rpc_rps
    )


@asynccontextmanager
async def open_endpoints(config: Config) -> AsyncIterator[Endpoints]:
    """Connect to the nodes that are named."""
    async with _endpoints(config) as endpoints:
        yield endpoints
