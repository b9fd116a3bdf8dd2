"""A node that serves a few blocks a test may bend."""

from __future__ import annotations

from typing import Any

from tests.support.fakenode import FakeNode
from tests.support.replies import block, hash_of, receipts

HEIGHTS = range(5, 9)


class Chain(FakeNode):
    """Blocks and receipts a test may bend, and a node that serves them."""

    def __init__(self, *, transactions: int = 2, logs: int = 3) -> None:
        super().__init__()
        self.blocks: dict[int, dict[str, Any] | None] = {
            number: block(number, transactions=transactions, logs=logs)
            for number in HEIGHTS
        }
        self.receipts: dict[int, list[dict[str, Any]] | None] = {
            number: receipts(number, transactions=transactions, logs=logs)
            for number in HEIGHTS
        }
        self.methods = {
            "eth_getBlockByNumber": lambda params: self.blocks.get(int(params[0], 16)),
            "eth_getBlockReceipts": self.listed,
            "eth_getTransactionReceipt": self.single,
        }

    def listed(self, params: list[str]) -> list[dict[str, Any]] | None:
        for number, found in self.receipts.items():
            if params[0] in (hex(number), hash_of(number)):
                return found
        return None

    def single(self, params: list[str]) -> dict[str, Any] | None:
        for found in self.receipts.values():
            for each in found or []:
                if each["transactionHash"] == params[0]:
                    return each
        return None

    def asked(self) -> list[str]:
        return [method for method, _ in self.calls]
