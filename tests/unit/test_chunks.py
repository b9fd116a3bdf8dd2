"""How many blocks a chunk has, and how many bytes a process holds (P1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from indexer.errors import RangeTooLarge, RpcUnavailable
from indexer.ranges import BlockRange
from indexer.services.chunks import ByteBudget, ChunkSizer, Held
from indexer.services.prefetch import Loaded, in_order

MIB = 1024 * 1024
WHOLE = BlockRange(0, 99)


async def settle() -> None:
    """Let every task go as far as it comes without us."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_chunks_shrink_at_once_and_grow_in_steps() -> None:
    sizer = ChunkSizer()
    first = sizer.size
    sizer.learn(first, first * 1_000)
    assert sizer.size == 4 * first
    sizer.learn(sizer.size, sizer.size * 50 * MIB)
    assert sizer.size == 1
    sizer.learn(1, 1_000)
    assert sizer.size == 4


def grown(bytes_a_block: int) -> ChunkSizer:
    sizer = ChunkSizer()
    for _ in range(10):
        sizer.learn(sizer.size, sizer.size * bytes_a_block)
    return sizer


def test_q4_chunks_shrink_where_a_transaction_took_long_whatever_their_bytes() -> None:
    sizer = grown(2_000)
    large = sizer.size
    sizer.learn_seconds(large, 1.9)
    assert sizer.size == large // 2
    sizer.learn(sizer.size, sizer.size * 2_000)
    assert sizer.size == large // 2
    sizer.learn_seconds(sizer.size, 0.1)
    sizer.learn(sizer.size, sizer.size * 2_000)
    assert sizer.size == large // 2 * 2


def test_chunks_do_not_shrink_to_where_round_trips_are_all_that_is_left() -> None:
    sizer = grown(2_000)
    for _ in range(20):
        sizer.learn_seconds(sizer.size, 5.0)
    assert sizer.size > 100
    giant = grown(50 * MIB)
    giant.learn_seconds(1, 5.0)
    assert giant.size == 1


def test_a_fixed_size_is_only_changed_where_it_is_too_large() -> None:
    sizer = ChunkSizer(7)
    sizer.learn(7, 700 * MIB)
    sizer.learn_seconds(7, 60.0)
    assert sizer.size == 7
    sizer.too_large(7)
    assert sizer.size == 3


async def test_p1_what_is_held_stays_within_the_budget_in_order_of_asking() -> None:
    budget = ByteBudget(100)
    first = await budget.take(60)
    order: list[int] = []

    async def ask(size: int) -> Held:
        held = await budget.take(size)
        order.append(size)
        return held

    tasks = [asyncio.create_task(ask(size)) for size in (50, 10, 70)]
    await settle()
    # The small one would fit, but it would let the large one starve.
    assert order == []
    first.is_really(40)
    await settle()
    assert order == [50, 10]
    assert budget.used == 100
    for task in tasks[:2]:
        (await task).release()
    first.release()
    first.release()
    await settle()
    assert order == [50, 10, 70]
    (await tasks[2]).release()
    assert budget.used == 0


async def test_p1_more_than_the_budget_is_lent_to_one_that_is_alone() -> None:
    budget = ByteBudget(100)
    small = await budget.take(1)
    giant = asyncio.create_task(budget.take(5_000))
    await settle()
    assert not giant.done()
    small.release()
    (await giant).release()
    assert budget.used == 0


async def test_p1_who_stops_waiting_takes_nothing_along() -> None:
    budget = ByteBudget(100)
    held = await budget.take(90)
    gone = asyncio.create_task(budget.take(95))
    stays = asyncio.create_task(budget.take(10))
    await settle()
    gone.cancel()
    await settle()
    assert stays.done()
    # Cancelled in the very round in which its turn came.
    late = asyncio.create_task(budget.take(20))
    await settle()
    held.release()
    late.cancel()
    await asyncio.gather(gone, late, return_exceptions=True)
    (await stays).release()
    assert budget.used == 0


Answer = Callable[[BlockRange], Awaitable[None]]


async def collect(
    answer: Answer, *, budget: ByteBudget, fixed: int | None = 10, most: int = 1000
) -> list[BlockRange]:
    """Take up to ``most`` chunks of WHOLE, a mebibyte a block."""

    async def load(chunk: BlockRange) -> Loaded[int]:
        await answer(chunk)
        return Loaded(chunk, chunk.first, len(chunk) * MIB)

    seen: list[BlockRange] = []
    chunks = in_order(WHOLE, load, sizer=ChunkSizer(fixed), budget=budget)
    try:
        async for chunk in chunks:
            assert chunk.data == chunk.blocks.first
            seen.append(chunk.blocks)
            if len(seen) == most:
                break
    finally:
        await chunks.aclose()
    return seen


async def test_chunks_come_in_order_however_their_answers_do() -> None:
    async def later_ones_first(chunk: BlockRange) -> None:
        for _ in range(30 - chunk.first % 30):
            await asyncio.sleep(0)

    budget = ByteBudget(1000 * MIB)
    seen = await collect(later_ones_first, budget=budget)
    assert seen == [BlockRange(at, at + 9) for at in range(0, 100, 10)]
    assert budget.used == 0


@pytest.mark.parametrize("fixed", [None, 10])
async def test_a_chunk_that_is_too_large_is_cut_and_nothing_is_left_out(
    fixed: int | None,
) -> None:
    async def refuse(chunk: BlockRange) -> None:
        await asyncio.sleep(0)
        if len(chunk) > 3:
            raise RangeTooLarge("too many", suggested=1)

    budget = ByteBudget(1000 * MIB)
    seen = await collect(refuse, budget=budget, fixed=fixed)
    assert [each.first for each in seen[1:]] == [each.last + 1 for each in seen[:-1]]
    assert (seen[0].first, seen[-1].last) == (0, 99)
    assert budget.used == 0


async def test_a_single_block_that_is_too_large_is_not_tried_for_ever() -> None:
    async def refuse(chunk: BlockRange) -> None:
        raise RangeTooLarge("too many", suggested=1)

    budget = ByteBudget(1000 * MIB)
    with pytest.raises(RangeTooLarge):
        await collect(refuse, budget=budget, fixed=None)
    assert budget.used == 0


@pytest.mark.parametrize("most", [1, 1000])
async def test_p1_nothing_is_held_behind_a_failure_or_an_early_end(most: int) -> None:
    async def fail_late(chunk: BlockRange) -> None:
        await asyncio.sleep(0)
        if chunk.first == 50:
            raise RpcUnavailable("gone")

    budget = ByteBudget(1000 * MIB)
    if most == 1:
        assert await collect(fail_late, budget=budget, most=1) == [BlockRange(0, 9)]
    else:
        with pytest.raises(RpcUnavailable):
            await collect(fail_late, budget=budget)
    assert budget.used == 0


async def test_p1_no_more_is_under_way_than_the_budget_holds() -> None:
    budget = ByteBudget(25 * MIB)
    most = 0

    async def watch(_chunk: BlockRange) -> None:
        nonlocal most
        await asyncio.sleep(0)
        most = max(most, budget.used)

    await collect(watch, budget=budget)
    assert most <= 25 * MIB
