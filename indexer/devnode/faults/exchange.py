"""One request under faults, from its arrival to how its reply goes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from indexer.devnode import messages
from indexer.devnode.faults.fault import Fault
from indexer.devnode.faults.heights import heights_of
from indexer.devnode.faults.kind import (
    Act,
    BatchKind,
    BodyKind,
    CallKind,
    Kind,
    Memory,
    Met,
    Outcome,
    Parts,
    RequestKind,
    Response,
    ViewKind,
)
from indexer.devnode.faults.kinds import KINDS
from indexer.devnode.messages import Call, RpcFailure
from indexer.devnode.served import ReadableChain

K = TypeVar("K", bound=Kind)


class Armed:
    """A fault in force: how often it had its chance, what it remembers.

    ``seen`` is the view that it answers by, where it is of such a kind.
    """

    def __init__(
        self, fault: Fault, head: int, tally: Counter[str], seen: ReadableChain | None
    ) -> None:
        self.fault = fault
        self.kind = KINDS[fault.kind]
        self.memory = Memory(head)
        self.seen = seen
        self._tally = tally
        self._chances = 0

    @property
    def spent(self) -> bool:
        """Return whether it has struck as often as it was to."""
        times = self.fault.times
        return times is not None and self._chances >= self.fault.skip + times

    def strikes(self) -> bool:
        """Count a chance, and return whether the fault takes it."""
        if self.spent:
            return False
        self._chances += 1
        if self._chances <= self.fault.skip:
            return False
        self._tally[self.fault.kind] += 1
        return True


class Answered(NamedTuple):
    """A call of a request with its id as JSON, empty for a notification.

    ``call`` is ``None`` where it was none.
    """

    call: Call | None
    id: bytes
    outcome: Outcome


class Exchange:
    """What one request meets.

    ``armed`` strike each for itself; of ``drawn`` the first that has anything to
    spoil, at a place that ``choice`` chooses.
    """

    def __init__(
        self,
        chain: ReadableChain,
        armed: Sequence[Armed],
        drawn: Sequence[Armed],
        choice: int,
    ) -> None:
        self._chain = chain
        self._choice = choice
        self._armed = [(one, 0) for one in armed]
        self._drawn = drawn
        # What befalls a request before it is answered is decided now or never.
        if drawn and isinstance(drawn[0].kind, RequestKind | ViewKind):
            self._armed.append((drawn[0], choice))
            self._drawn = ()

    @property
    def touches_answers(self) -> bool:
        """Return whether answering can differ from answering faultlessly."""
        return bool(self._drawn) or any(
            not isinstance(armed.kind, RequestKind) for armed, _ in self._armed
        )

    def acts(self, ids: Sequence[bytes]) -> Iterator[Act]:
        """Yield what befalls the request as a whole, in order."""
        for armed, kind, _ in self._of(RequestKind):
            act = kind.act(armed.fault, armed.memory, ids)
            if act is not None and armed.strikes():
                yield act

    def view(self) -> ReadableChain | None:
        """Return by whose view the request is answered, ``None`` for the true one."""
        for armed, _, _ in self._of(ViewKind):
            if armed.strikes():
                return armed.seen
        return None

    def finish(self, answered: Sequence[Answered], *, batch: bool) -> Response:
        """Return what is sent for the calls' true answers."""
        outcomes = self._spoilt(answered)
        parts = [
            (one.id, _member(outcome))
            for one, outcome in zip(answered, outcomes, strict=True)
            if one.id
        ]
        body = self._joined(parts, batch=batch) if parts else b""
        for armed, kind, _ in self._of(BodyKind):
            if body and armed.strikes():
                return kind.send(armed.fault, body)
        return Response(body)

    def _spoilt(self, answered: Sequence[Answered]) -> list[Outcome]:
        outcomes = [one.outcome for one in answered]
        calls = [one.call for one in answered]
        for armed, kind, _ in self._of(CallKind):
            self._spoil(armed, kind, calls, outcomes)
        for armed in self._drawn:
            if not isinstance(armed.kind, CallKind):
                if not isinstance(armed.kind, RequestKind | ViewKind):
                    self._armed.append((armed, self._choice))
                    break
            elif self._spoil(armed, armed.kind, calls, outcomes, once=True):
                break
        return outcomes

    def _spoil(
        self,
        armed: Armed,
        kind: CallKind,
        calls: Sequence[Call | None],
        outcomes: list[Outcome],
        *,
        once: bool = False,
    ) -> bool:
        """Let a fault strike at the calls it concerns, or at the ``once`` chosen."""
        first = self._choice % len(calls) if once else 0
        for turn in range(len(calls)):
            position = (first + turn) % len(calls)
            call = calls[position]
            if call is None or not _aims_at(armed.fault, kind, call):
                continue
            heights = heights_of(call, self._chain)
            if not armed.fault.covers(heights):
                continue
            met = Met(call, heights, outcomes[position])
            told = kind.spoil(armed.fault, armed.memory, met)
            if told is not None and armed.strikes():
                outcomes[position] = told
                if once:
                    return True
        return False

    def _joined(self, parts: Parts, *, batch: bool) -> bytes:
        for armed, kind, choice in self._of(BatchKind):
            arranged = kind.arrange(armed.fault, parts, choice)
            if arranged is not None and armed.strikes():
                if isinstance(arranged, bytes):
                    return arranged
                parts = arranged
        replies = [messages.envelope(call_id, member) for call_id, member in parts]
        return b"[" + b",".join(replies) + b"]" if batch else replies[0]

    def _of(self, stage: type[K]) -> Iterator[tuple[Armed, K, int]]:
        for armed, choice in self._armed:
            if isinstance(armed.kind, stage):
                yield armed, armed.kind, choice


def _aims_at(fault: Fault, kind: CallKind, call: Call) -> bool:
    if call.method.startswith("devnode_"):
        return False
    if fault.method is not None:
        return call.method == fault.method
    return not kind.methods or call.method in kind.methods


def _member(outcome: Outcome) -> bytes:
    if isinstance(outcome, RpcFailure):
        return messages.error_member(outcome.code, outcome.message)
    return b'"result":' + outcome
