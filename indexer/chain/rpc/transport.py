"""What every transport to a node is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from indexer.errors import RangeTooLarge, RpcUnavailable
from indexer.log import redact_url

# Blocks of 50 MB exist; whatever is larger than this is no answer but an attack, and
# memory is bounded.
REPLY_BYTES: Final = 256 * 1024 * 1024


class Answer(NamedTuple):
    """What came back: the body, and for HTTP its status and ``Retry-After``."""

    body: bytes
    status: int | None = None
    retry_after: float | None = None


class MaybeTooLarge(RangeTooLarge):
    """A batch failed in a way that may be due to its size, or to something else."""


class SubscriptionUnsupported(Exception):
    """The transport, or the node behind it, announces no new heads."""


class Transport(ABC):
    """One connection (or pool of them) to one node."""

    def __init__(self, url: str, timeout: float) -> None:
        self.name = redact_url(url)
        self.timeout: Final = timeout

    @abstractmethod
    async def send(self, payload: bytes, *, first_id: int, count: int) -> Answer:
        """Send one request, or a batch of ``count``, and return the answer.

        Its ids count from ``first_id``. Raises RpcUnavailable, and MaybeTooLarge
        where the node closes the connection on a batch, as some do on large ones.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close every connection; idempotent."""

    async def subscribe_new_heads(self) -> AsyncIterator[None]:
        """Subscribe; the iterator yields when the node may have a new head.

        A hint, no more: heads may be skipped. Raises SubscriptionUnsupported where
        there is no such thing; the iterator raises RpcUnavailable when the
        connection is lost.
        """
        raise SubscriptionUnsupported

    def unavailable(self, problem: str) -> RpcUnavailable:
        """Return the error for a problem, naming the node without its secrets."""
        return RpcUnavailable(f"{self.name} {problem}")

    def dropped(self, count: int) -> MaybeTooLarge | RpcUnavailable:
        """Return the error for a connection that was closed on a request."""
        if count == 1:
            return self.unavailable("closed the connection without an answer")
        return MaybeTooLarge(
            f"{self.name} closed the connection on a batch of {count}",
            suggested=count // 2,
        )
