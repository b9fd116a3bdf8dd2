"""Reorganisations of a node that nobody here wrote, whose transactions move."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.anvil import Anvil, run_anvil
from tests.support.contract import DEV_KEYS, Sender, every_kind_of_log
from tests.support.following import Reader, following
from tests.support.reader import differences

BLOCKS = 70


class Recorder(Anvil):
    """A node that remembers which raw transactions went into which block."""

    def __init__(self, node: Anvil) -> None:
        super().__init__(node.process, node.url.removeprefix("http://"), node.ipc_path)
        self.pool: list[str] = []
        self.mined: dict[int, list[str]] = {}

    def rpc(self, method: str, *params: Any) -> Any:
        result = super().rpc(method, *params)
        if method == "eth_sendRawTransaction":
            self.pool.append(params[0])
        if method == "evm_mine":
            height = int(super().rpc("eth_blockNumber"), 16)
            self.mined[height], self.pool = self.pool, []
        return result

    def reorg(self, depth: int, *, head: int) -> None:
        """Replace the last blocks; each transaction comes a block later, one never."""
        orphaned = range(head - depth + 1, head + 1)
        moved = [
            [raw, min(offset + 1, depth - 1)]
            for offset, height in enumerate(orphaned)
            for raw in self.mined.get(height, [])
        ]
        self.rpc("anvil_reorg", depth, moved[:-1])


@pytest.fixture
def node() -> Iterator[Recorder]:
    with run_anvil("--no-mining", "--slots-in-an-epoch", "64") as running:
        recorder = Recorder(running)
        senders = [Sender(recorder, key) for key in DEV_KEYS[:2]]
        contract = senders[0].deploy()
        for number in range(BLOCKS):
            for kind, sender in zip((0, 2), senders, strict=True):
                if number % 3:
                    logs = every_kind_of_log(number)
                    sender.send(kind, to=contract, data=logs)
            recorder.mine()
        yield recorder


async def test_c5_anvil_moves_transactions_between_blocks(
    node: Recorder, database_url: str
) -> None:
    with Reader(database_url):
        async with following(
            database_url, node.ws_url, start=0, finality_depth=100
        ) as it:
            await it.until_tip(node.url)
            head = BLOCKS + 1
            for depth in (1, 2, 5, 64):
                old = node.rpc("eth_getBlockByNumber", hex(head), False)["hash"]
                await asyncio.to_thread(node.reorg, depth, head=head)
                if depth > 2:
                    # Else the new fork is only as long as the old one.
                    head = node.mine()
                await it.until_tip(node.url)
                [*_, last] = await it.reorgs()
                assert "0x" + last[2].hex() == old
                assert differences(node.url, database_url, range(head + 1)) == []
            assert [each[1] for each in await it.reorgs()] == [1, 2, 5, 64]
            assert await it.value("select count(*) from indexer.logs") > 300
