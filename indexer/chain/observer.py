"""What an endpoint lets others see; metrics attach themselves here."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class Tally:
    """How many requests were sent on behalf of one piece of work."""

    def __init__(self) -> None:
        self.requests = 0


_TALLY: ContextVar[Tally | None] = ContextVar("tally", default=None)


def begin_tally() -> Tally:
    """Count from now on what this task asks, and the tasks that it begins."""
    tally = Tally()
    _TALLY.set(tally)
    return tally


def count_requests(requests: int) -> None:
    """Count requests for whoever began a tally around them."""
    tally = _TALLY.get()
    if tally is not None:
        tally.requests += requests


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
