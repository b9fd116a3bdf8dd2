"""The faults in force at a node, and what each request meets of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from indexer.devnode import messages
from indexer.devnode.faults.exchange import Armed, Exchange
from indexer.devnode.faults.fault import Fault, parse_faults
from indexer.devnode.faults.kind import BatchKind, ViewKind
from indexer.devnode.faults.kinds import KINDS, completed
from indexer.devnode.faults.schedule import Draws, FaultSchedule
from indexer.devnode.messages import Calls
from indexer.devnode.served import ReadableChain, ServedChain

# The faults of one request alone, in either form that parse_faults reads.
FAULT_HEADER = "X-Devnode-Fault"

# Whoever steers a node must be able to do so however faulty it is.
_EXEMPT = "devnode_"


class Faults:
    """Which faults are in force, and how often each kind struck."""

    def __init__(
        self,
        chain: ServedChain,
        faults: Iterable[Fault] = (),
        schedule: FaultSchedule | None = None,
    ) -> None:
        self._chain = chain
        # Replaced as a whole, so that any thread may change what another reads.
        self._armed: tuple[Armed, ...] = ()
        self._draws: Draws | None = None
        # Each once: another chain takes long to make.
        self._views: dict[Fault, ReadableChain] = {}
        self.tally: Counter[str] = Counter()
        self.active = False
        for fault in faults:
            self.add(fault)
        self.follow(schedule)

    def add(self, fault: Fault) -> None:
        """Put a fault in force, after those that are.

        Raises:
            ValueError: there is no such kind, or not with this chain.
        """
        self._armed = (*self._armed, self._arm(fault))
        self.active = True

    def follow(self, schedule: FaultSchedule | None) -> None:
        """Draw faults for requests from now on, or no more.

        Raises:
            ValueError: the schedule names a kind that does not exist.
        """
        self._draws = None if schedule is None else Draws(schedule)
        self.active = bool(self._armed or self._draws)

    def clear(self) -> None:
        """Serve faultlessly from now on."""
        self._armed = ()
        self.follow(None)

    def announced(self, heights: Sequence[int]) -> Sequence[int]:
        """Return which of some new heights are announced."""
        for armed in self._armed:
            if armed.kind.heads is not None and not armed.spent:
                heights = armed.kind.heads(armed.fault, heights)
        return heights

    def meet(self, calls: Calls, header: str | None = None) -> Exchange | None:
        """Return what a request meets, ``None`` if nothing.

        Raises:
            ValueError: the header cannot be read.
        """
        methods = messages.methods(calls)
        exposed = {name for name in methods if not name.startswith(_EXEMPT)}
        if not exposed:
            return None
        self._forget_spent()
        batch = isinstance(calls, Sequence) and len(calls) > 1
        own = [self._arm(fault) for fault in parse_faults(header or "")]
        met = [
            armed
            for armed in (*self._armed, *own)
            if _concerns(armed.fault, exposed, batch=batch)
        ]
        drawn: list[Armed] = []
        choice = 0
        if self._draws is not None:
            found = self._draws.next(lambda it: _concerns(it, exposed, batch=batch))
            if found is not None:
                drawn = [self._arm(fault) for fault in found[0]]
                choice = found[1]
        if not met and not drawn:
            return None
        return Exchange(self._chain, met, drawn, choice)

    def _arm(self, fault: Fault) -> Armed:
        fault = completed(fault)
        kind = KINDS[fault.kind]
        seen = None
        if isinstance(kind, ViewKind):
            seen = self._views.get(fault)
            if seen is None:
                seen = self._views[fault] = kind.view(fault, self._chain)
        return Armed(fault, self._chain.head, self.tally, seen)

    def _forget_spent(self) -> None:
        if any(armed.spent for armed in self._armed):
            self._armed = tuple(one for one in self._armed if not one.spent)
            self.active = bool(self._armed or self._draws)


def _concerns(fault: Fault, methods: set[str], *, batch: bool) -> bool:
    """Return whether a fault may strike a request that calls these methods."""
    kind = KINDS[fault.kind]
    if isinstance(kind, BatchKind) and kind.needs_batch and not batch:
        return False
    if fault.method is not None:
        return fault.method in methods
    return not kind.methods or not kind.methods.isdisjoint(methods)
