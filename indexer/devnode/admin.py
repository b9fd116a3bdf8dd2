"""The JSON-RPC methods by which a test or a demo steers a node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from indexer.devnode.faults.fault import Fault, parse_fault
from indexer.devnode.faults.kinds import KINDS
from indexer.devnode.faults.schedule import FaultSchedule
from indexer.devnode.messages import INVALID_PARAMS, RpcFailure
from indexer.devnode.methods import Handler, NotGenerated

if TYPE_CHECKING:
    from indexer.devnode.node import Node

T = TypeVar("T")


class AdminMethods:
    """The ``devnode`` methods of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.table: dict[str, Handler] = {
            "devnode_mine": self._mine,
            "devnode_setHead": self._set_head,
            "devnode_reorg": self._reorg,
            "devnode_fork": self._fork,
            "devnode_fault": self._fault,
            "devnode_clearFaults": self._clear_faults,
            "devnode_schedule": self._schedule,
            "devnode_faultKinds": self._fault_kinds,
            "devnode_counters": self._counters,
            "devnode_clearCounters": self._clear_counters,
        }

    def _mine(self, params: list[Any]) -> bytes:
        """Move the head up by one, or by so many blocks."""
        node = self._node
        count = _integer(params, default=1)
        target = node.chain.head + count
        if node.has_listeners:
            self._need(target)
        with _refusing():
            node.mine(count)
        return self._head()

    def _need(self, height: int) -> None:
        chain = self._node.chain
        if not chain.is_made(height):
            raise NotGenerated(chain, height)

    def _head(self) -> bytes:
        return b'"%#x"' % self._node.chain.head

    def _set_head(self, params: list[Any]) -> bytes:
        """Put the head anywhere; what is above it is hidden."""
        height = _integer(params)
        with _refusing():
            self._node.chain.set_head(height)
        return self._head()

    def _reorg(self, params: list[Any]) -> bytes:
        """Replace so many of the last blocks by others, and one more.

        With a second parameter of true by blocks with the same transactions.
        """
        depth, moved = _integer(params), params[1:] == [True]
        if moved:
            self._need(self._node.chain.head)
        with _refusing():
            self._node.reorg(depth, moved=moved)
        return self._head()

    def _fork(self, params: list[Any]) -> bytes:
        """Put everything above a height on the fork of a salt."""
        if len(params) != 2:
            raise RpcFailure(INVALID_PARAMS, "wanted: height, salt")
        height, salt = _integer(params[:1]), _integer(params[1:])
        with _refusing():
            self._node.chain.fork(height, salt)
        return b"true"

    def _fault(self, params: list[Any]) -> bytes:
        """Put faults in force, objects or short forms; without any, end all."""
        given: list[Fault | str] = _converted(params, list[Fault | str])
        if not given:
            self._node.faults.clear()
        with _refusing():
            for one in given:
                fault = parse_fault(one) if isinstance(one, str) else one
                self._node.faults.add(fault)
        return b"true"

    def _clear_faults(self, _params: list[Any]) -> bytes:
        """End the faults in force, the schedule too."""
        self._node.faults.clear()
        return b"true"

    def _schedule(self, params: list[Any]) -> bytes:
        """Draw faults by a schedule from now on; with null or nothing, no more."""
        wanted = params[0] if params else None
        schedule = None if wanted is None else _converted(wanted, FaultSchedule)
        with _refusing():
            self._node.faults.follow(schedule)
        return b"true"

    def _fault_kinds(self, _params: list[Any]) -> bytes:
        """Say what kinds of faults there are."""
        return msgspec.json.encode({name: kind.doc for name, kind in KINDS.items()})

    def _counters(self, _params: list[Any]) -> bytes:
        shown = self._node.counters.shown()
        return msgspec.json.encode({**shown, "faults": self._node.faults.tally})

    def _clear_counters(self, _params: list[Any]) -> bytes:
        """Count requests and faults from zero again."""
        self._node.counters.clear()
        self._node.faults.tally.clear()
        return b"true"


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn a value that cannot be into the error of a caller."""
    try:
        yield
    except ValueError as error:
        raise RpcFailure(INVALID_PARAMS, str(error)) from error


def _converted(value: Any, wanted: type[T]) -> T:  # noqa: ANN401 - JSON
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        raise RpcFailure(INVALID_PARAMS, str(error)) from error


def _integer(params: list[Any], default: int | None = None) -> int:
    """Read the first parameter: a JSON number or a hex quantity, not negative."""
    value = params[0] if params else default
    if isinstance(value, str):
        try:
            value = int(value, 16)
        except ValueError:
            value = None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise RpcFailure(INVALID_PARAMS, "wanted: a number of blocks")
    return value
