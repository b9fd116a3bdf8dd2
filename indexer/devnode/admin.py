"""The JSON-RPC methods by which a test or a demo steers a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from indexer.devnode.faults import Fault
from indexer.devnode.messages import INVALID_PARAMS, RpcFailure
from indexer.devnode.methods import Handler, NotGenerated

if TYPE_CHECKING:
    from indexer.devnode.node import Node


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
            "devnode_counters": self._counters,
        }

    def _mine(self, params: list[Any]) -> bytes:
        """Move the head up by one, or by so many blocks."""
        node = self._node
        count = _integer(params, default=1)
        target = node.chain.head + count
        if node.has_listeners and target >= node.chain.generated:
            raise NotGenerated(target)
        node.mine(count)
        return self._head()

    def _head(self) -> bytes:
        return b'"%#x"' % self._node.chain.head

    def _set_head(self, params: list[Any]) -> bytes:
        """Put the head anywhere; what is above it is hidden."""
        self._node.chain.set_head(_integer(params))
        return self._head()

    def _reorg(self, params: list[Any]) -> bytes:
        """Replace so many of the last blocks by others, and one more."""
        depth = _integer(params)
        try:
            self._node.reorg(depth)
        except ValueError as error:
            raise RpcFailure(INVALID_PARAMS, str(error)) from error
        return self._head()

    def _fork(self, params: list[Any]) -> bytes:
        """Put everything above a height on the fork of a salt."""
        if len(params) != 2:
            raise RpcFailure(INVALID_PARAMS, "wanted: height, salt")
        try:
            self._node.chain.fork(_integer(params[:1]), _integer(params[1:]))
        except ValueError as error:
            raise RpcFailure(INVALID_PARAMS, str(error)) from error
        return b"true"

    def _fault(self, params: list[Any]) -> bytes:
        """Put faults in force; with no parameter, end all that are."""
        try:
            faults = msgspec.convert(params, list[Fault])
        except msgspec.ValidationError as error:
            raise RpcFailure(INVALID_PARAMS, str(error)) from error
        if not faults:
            self._node.faults.clear()
        for fault in faults:
            self._node.faults.add(fault)
        return b"true"

    def _counters(self, _params: list[Any]) -> bytes:
        return msgspec.json.encode(self._node.counters.shown())


def _integer(params: list[Any], default: int | None = None) -> int:
    """Read the only parameter: a JSON number or a hex quantity, not negative."""
    value = params[0] if params else default
    if isinstance(value, str):
        try:
            value = int(value, 16)
        except ValueError:
            value = None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise RpcFailure(INVALID_PARAMS, "wanted: a number of blocks")
    return value
