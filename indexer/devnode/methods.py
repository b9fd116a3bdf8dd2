"""The JSON-RPC methods that read the chain; plain functions of it.

A method raises :class:`NotGenerated` where it needs heights that are not made
yet. Whoever called it makes them and calls again, so that a node with millions of
blocks to make still answers everybody else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from indexer.devnode.logs import LogFilter, ServedLog, served_logs
from indexer.devnode.messages import INVALID_PARAMS, SERVER_ERROR, RpcFailure
from indexer.devnode.params import arguments, flag, hash_of, wanted_height
from indexer.devnode.served import ReadableChain

Handler = Callable[[list[Any]], bytes]

_VERSION = b'"indexer-devnode/1.0"'
# A filter over more makes and reads too many blocks within one request.
_MAX_LOG_BLOCKS = 10_000


class NotGenerated(Exception):
    """``height`` must be made before this can be answered; ``whole``: all below too."""

    def __init__(
        self, chain: ReadableChain, height: int, *, whole: bool = False
    ) -> None:
        super().__init__(height)
        self.chain = chain
        self.height = height
        self.whole = whole


class _Mined(msgspec.Struct, rename="camel"):
    transaction_hash: str = ""
    hash: str = ""


_MINED = msgspec.json.Decoder(_Mined)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


class _Transactions(msgspec.Struct):
    transactions: list[msgspec.Raw]


_BLOCK = msgspec.json.Decoder(_Transactions)


class ChainMethods:
    """The ``eth``, ``net`` and ``web3`` methods of one chain."""

    def __init__(self, chain: ReadableChain) -> None:
        self._chain = chain
        # By hash too, so that a replaced block is not answered from here.
        self._receipts_of = lru_cache(maxsize=8)(self._load_receipts)
        self._transactions_of = lru_cache(maxsize=8)(self._load_transactions)
        self._logs_of = lru_cache(maxsize=64)(self._load_logs)
        self.table: dict[str, Handler] = {
            "web3_clientVersion": lambda _: _VERSION,
            "net_version": lambda _: b'"%d"' % chain.chain_id,
            "eth_chainId": lambda _: b'"%#x"' % chain.chain_id,
            "eth_blockNumber": lambda _: b'"%#x"' % chain.head,
            "eth_syncing": lambda _: b"false",
            "eth_getBlockByNumber": self._block_by_number,
            "eth_getBlockByHash": self._block_by_hash,
            "eth_getBlockReceipts": self._block_receipts,
            "eth_getBlockTransactionCountByNumber": self._transaction_count,
            "eth_getTransactionByHash": self._transaction,
            "eth_getTransactionReceipt": self._receipt,
            "eth_getLogs": self._logs,
        }

    def _block_by_number(self, params: list[Any]) -> bytes:
        number, full = arguments(params, 2)
        height = self._height(number)
        return self._block(height, flag(full))

    def _block_by_hash(self, params: list[Any]) -> bytes:
        block_hash, full = arguments(params, 2)
        return self._block(self._height_of(hash_of(block_hash)), flag(full))

    def _block(self, height: int | None, full: bool) -> bytes:
        return b"null" if height is None else self._chain.block_json(height, full)

    def _block_receipts(self, params: list[Any]) -> bytes:
        height = self._block_id(arguments(params, 1)[0])
        return b"null" if height is None else self._chain.receipts_json(height)

    def _transaction_count(self, params: list[Any]) -> bytes:
        height = self._height(arguments(params, 1)[0])
        if height is None:
            return b"null"
        items = self._transactions_of(height, self._chain.hash_at(height))
        return b'"%#x"' % len(items)

    def _transaction(self, params: list[Any]) -> bytes:
        return self._mined(hash_of(arguments(params, 1)[0]), self._transactions_of)

    def _receipt(self, params: list[Any]) -> bytes:
        return self._mined(hash_of(arguments(params, 1)[0]), self._receipts_of)

    def _mined(
        self, wanted: bytes, items_of: Callable[[int, bytes], list[msgspec.Raw]]
    ) -> bytes:
        place = self._chain.place_of(wanted)
        if place is None:
            self._need_all()
            return b"null"
        height, index = place
        self._need(height)
        items = items_of(height, self._chain.hash_at(height))
        if index >= len(items):
            return b"null"
        found = _MINED.decode(items[index])
        shown = found.transaction_hash or found.hash
        return bytes(items[index]) if shown == f"0x{wanted.hex()}" else b"null"

    def _logs(self, params: list[Any]) -> bytes:
        spec = arguments(params, 1)[0]
        if not isinstance(spec, dict):
            raise RpcFailure(INVALID_PARAMS, "invalid argument 0: not an object")
        wanted = LogFilter.parse(spec)
        heights = self._log_heights(spec)
        # From above, because what is made reaches down: one turn is enough mostly.
        for height in reversed(heights):
            self._need(height)
        found: list[msgspec.Raw] = []
        for height in heights:
            if self._chain.holds(height) and not self._chain.is_empty(height):
                logs = self._logs_of(height, self._chain.hash_at(height))
                found += wanted.select(logs)
        return b"[" + b",".join(found) + b"]"

    def _log_heights(self, spec: dict[str, Any]) -> range:
        chain = self._chain
        if spec.get("blockHash") is not None:
            if spec.get("fromBlock") is not None or spec.get("toBlock") is not None:
                raise RpcFailure(
                    INVALID_PARAMS,
                    "cannot specify both blockHash and fromBlock/toBlock",
                )
            height = self._height_of(hash_of(spec["blockHash"]))
            if height is None:
                raise RpcFailure(SERVER_ERROR, "unknown block")
            return range(height, height + 1)
        ends = [spec.get(name) or "latest" for name in ("fromBlock", "toBlock")]
        first, last = (wanted_height(end, chain) for end in ends)
        if first > last:
            raise RpcFailure(INVALID_PARAMS, "invalid block range params")
        if last > chain.head:
            raise RpcFailure(
                INVALID_PARAMS, "block range extends beyond current head block"
            )
        if last - first >= _MAX_LOG_BLOCKS:
            raise RpcFailure(
                INVALID_PARAMS, f"block range is limited to {_MAX_LOG_BLOCKS} blocks"
            )
        return range(first, last + 1)

    def _block_id(self, value: Any) -> int | None:  # noqa: ANN401 - JSON
        """Resolve a number, a tag, a hash, or an object with one of them."""
        if isinstance(value, dict):
            value = value.get("blockHash") or value.get("blockNumber")
        if isinstance(value, str) and len(value) == 66:
            return self._height_of(hash_of(value))
        return self._height(value)

    def _height(self, value: Any) -> int | None:  # noqa: ANN401 - JSON
        """Resolve a number or tag to a height that is made and served."""
        height = wanted_height(value, self._chain)
        if not self._chain.holds(height):
            return None
        self._need(height)
        return height

    def _height_of(self, block_hash: bytes) -> int | None:
        height = self._chain.height_of(block_hash)
        if height is None:
            self._need_all()
        return height

    def _need(self, height: int) -> None:
        if not self._chain.is_made(height):
            raise NotGenerated(self._chain, height)

    def _need_all(self) -> None:
        """Look for a hash nowhere but in the whole chain."""
        if self._chain.generated <= self._chain.head:
            raise NotGenerated(self._chain, self._chain.head, whole=True)

    def _load_receipts(self, height: int, _hash: bytes) -> list[msgspec.Raw]:
        return _ITEMS.decode(self._chain.receipts_json(height))

    def _load_transactions(self, height: int, _hash: bytes) -> list[msgspec.Raw]:
        return _BLOCK.decode(self._chain.block_json(height, True)).transactions

    def _load_logs(self, height: int, _hash: bytes) -> list[ServedLog]:
        return served_logs(self._chain.receipts_json(height))
