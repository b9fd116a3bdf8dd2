"""Long work of many tasks leaves the event loop to others in between."""

from __future__ import annotations

import asyncio

from msgspec import Raw

from indexer.chain.gate import urgent
from indexer.chain.turns import SLICE_BYTES, slices, turn


async def test_one_slice_is_done_in_a_round_of_the_loop() -> None:
    rounds = 0
    slices_in: dict[int, int] = {}

    async def work() -> None:
        for _ in range(20):
            await turn()
            slices_in[rounds] = slices_in.get(rounds, 0) + 1

    tasks = [asyncio.create_task(work()) for _ in range(10)]
    while not all(task.done() for task in tasks):
        rounds += 1
        await asyncio.sleep(0)
    assert sum(slices_in.values()) == 200
    assert max(slices_in.values()) == 1


async def test_what_is_urgent_does_not_wait_for_its_turn() -> None:
    held = asyncio.create_task(turn())
    await asyncio.sleep(0)
    with urgent():
        # Not one round of the loop passes, so the other has not got its turn.
        await turn()
        assert not held.done()
    await held


def test_replies_are_cut_where_they_are_too_much_at_once() -> None:
    small, large = Raw(b"1" * (SLICE_BYTES // 4)), Raw(b"1" * (SLICE_BYTES * 3))
    replies = [small] * 10 + [large] * 2 + [ValueError()] * 3
    parts = list(slices(replies))
    assert [reply for part in parts for reply in replies[part]] == replies
    assert [len(replies[part]) for part in parts] == [4, 4, 3, 1, 3]
    assert list(slices([])) == []
