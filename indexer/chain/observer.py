"""What an endpoint lets others see; metrics attach themselves here."""

from __future__ import annotations

from typing import Protocol


class RpcObserver(Protocol):
    """Called in the event loop; must neither block nor raise."""

    def asked(
        self,
        endpoint: str,
        method: str,
        outcome: str,
        *,
        requests: int,
        received: int,
        seconds: float,
    ) -> None:
        """A batch of requests, or a single one, came back or did not.

        ``outcome`` is ``ok``, ``error`` (the node refused some of them) or the type
        of the exception; ``received`` is in bytes.
        """


class NoRpcObserver:
    """Sees nothing."""

    def asked(
        self,
        endpoint: str,
        method: str,
        outcome: str,
        *,
        requests: int,
        received: int,
        seconds: float,
    ) -> None:
        """Ignore it."""
