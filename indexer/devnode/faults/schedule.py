"""Faults by chance that is the same every time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from random import Random

import msgspec

from indexer.devnode.faults.fault import Fault, parse_fault
from indexer.devnode.faults.kinds import KINDS, completed


class FaultSchedule(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """A fault on a share ``rate`` of all requests, chosen by (seed, their number).

    ``kinds`` are faults, or their names or short forms; without any, every kind
    that a patient and distrustful client gets over. Where the chosen one has
    nothing to spoil in a request, another one is chosen, so that about ``rate`` of
    the requests are hit whatever they ask.
    """

    seed: int = 0
    rate: float = 0.1
    kinds: tuple[Fault | str, ...] = ()

    def faults(self) -> tuple[Fault, ...]:
        """Return what there is to choose from.

        Raises:
            ValueError: a kind does not exist, or a short form cannot be read.
        """
        named = self.kinds or tuple(n for n, kind in KINDS.items() if kind.scheduled)
        read = [parse_fault(one) if isinstance(one, str) else one for one in named]
        return tuple(completed(fault) for fault in read)


class Draws:
    """The choices of a schedule, request by request."""

    def __init__(self, schedule: FaultSchedule) -> None:
        self._schedule = schedule
        self._faults = schedule.faults()
        self._requests = 0

    def next(
        self, concerns: Callable[[Fault], bool]
    ) -> tuple[Sequence[Fault], int] | None:
        """Return what the next request may meet, in the order of choice.

        With the faults that ``concerns`` allows comes a number to choose a place in
        the request by.
        """
        number = self._requests
        self._requests += 1
        key = f"{self._schedule.seed}|{number}".encode()
        chance = blake2b(key, digest_size=24).digest()
        if int.from_bytes(chance[:8], "big") >= self._schedule.rate * 2**64:
            return None
        candidates = [fault for fault in self._faults if concerns(fault)]
        Random(chance[8:16]).shuffle(candidates)
        return candidates, int.from_bytes(chance[16:], "big")
