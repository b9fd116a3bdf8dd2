"""What a node does wrong on purpose.

The server asks :meth:`Faults.before` once for each HTTP request or WebSocket
message, with the methods in it, and :meth:`Faults.answer` once for each call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

import msgspec


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that goes wrong, for calls of one method or of any.

    ``latency`` waits ``seconds``; ``status`` answers with an HTTP status, a body
    and maybe a Retry-After instead; ``drop`` cuts the connection; these three
    concern a whole request with all its calls. ``null`` and ``error`` replace the
    result of single calls. The first ``skip`` times nothing happens, then
    ``times`` times it does, or always.
    """

    kind: Literal["latency", "status", "drop", "null", "error"]
    method: str | None = None
    skip: int = 0
    times: int | None = None
    seconds: float = 0.0
    status: int = 503
    body: str = ""
    retry_after: int | None = None
    code: int = -32000
    message: str = "fault on purpose"


_TRANSPORT = ("latency", "status", "drop")


class Faults:
    """The faults in force, and how often each had its chance."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = list(faults)
        self._chances = [0] * len(self._faults)

    @property
    def active(self) -> bool:
        """Return whether there is anything to ask about."""
        return bool(self._faults)

    def add(self, fault: Fault) -> None:
        """Put a fault in force, after those that are."""
        self._faults.append(fault)
        self._chances.append(0)

    def clear(self) -> None:
        """Serve faultlessly from now on."""
        self._faults.clear()
        self._chances.clear()

    def before(self, methods: Collection[str]) -> list[Fault]:
        """Return what happens to a request that calls these methods, in order."""
        return [
            fault
            for position, fault in enumerate(self._faults)
            if fault.kind in _TRANSPORT
            and (fault.method is None or fault.method in methods)
            and self._strikes(position)
        ]

    def answer(self, method: str) -> Fault | None:
        """Return what replaces the result of one call, if anything does."""
        for position, fault in enumerate(self._faults):
            if (
                fault.kind not in _TRANSPORT
                and fault.method in (None, method)
                and self._strikes(position)
            ):
                return fault
        return None

    def _strikes(self, position: int) -> bool:
        fault = self._faults[position]
        chance = self._chances[position]
        self._chances[position] = chance + 1
        if chance < fault.skip:
            return False
        return fault.times is None or chance < fault.skip + fault.times
