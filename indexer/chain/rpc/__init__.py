"""Bytes to a node and back, over web3's providers; the only importer of web3.

Requests go out and answers come in as bytes: web3's formatters, caches, retries and
id bookkeeping stay unused. Its retry is a hidden second layer that can end in None,
and its persistent providers know one batch at a time and poll for the answer in a
busy loop, so answers are handed to their waiters here, by id.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from indexer.chain.rpc.transport import (
    Answer,
    MaybeTooLarge,
    SubscriptionUnsupported,
    Transport,
)
from indexer.errors import ConfigError
from indexer.log import redact_url

__all__ = [
    "Answer",
    "MaybeTooLarge",
    "SubscriptionUnsupported",
    "Transport",
    "open_transport",
]


def open_transport(url: str, headers: Mapping[str, str], timeout: float) -> Transport:
    """Return the transport for a URL or an IPC path; connects at the first request.

    ``timeout`` is in seconds, for a whole request. Raises ConfigError for a URL
    that cannot be one.
    """
    # web3 takes most of a second to be imported, and many a command asks no node.
    from indexer.chain.rpc.http import HttpTransport
    from indexer.chain.rpc.sockets import IpcTransport, WebSocketTransport

    scheme, separator, rest = url.partition("://")
    if not separator and Path(url).is_absolute():
        return IpcTransport(url, timeout)
    scheme = scheme.lower()
    if scheme in ("ipc", "file") and rest.startswith("/"):
        return IpcTransport(rest, timeout)
    if scheme in ("http", "https", "ws", "wss") and _has_host(url):
        if scheme in ("http", "https"):
            return HttpTransport(url, headers, timeout)
        return WebSocketTransport(url, headers, timeout)
    raise ConfigError(
        f"{redact_url(url)!r} is no RPC URL: it begins with http://, https://, ws://, "
        "wss:// and names a host, or is the absolute path of an IPC socket"
    )


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
