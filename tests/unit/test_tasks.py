"""Tasks end when they are told to, whatever they do with a cancellation."""

from __future__ import annotations

import asyncio

import pytest

from indexer.tasks import end_tasks


async def test_a_loop_whose_library_swallows_a_cancellation_ends_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("indexer.tasks._AGAIN_SECONDS", 0.01)
    ready = asyncio.Event()
    swallowed = 0

    async def loop() -> None:
        nonlocal swallowed
        while True:
            try:
                await ready.wait()
            except asyncio.CancelledError:
                if swallowed == 2:
                    raise
                swallowed += 1

    task = asyncio.create_task(loop())
    await asyncio.sleep(0)
    await end_tasks(task)
    assert task.cancelled()
    assert swallowed == 2


async def test_what_a_task_ended_with_is_nobodys_matter_any_more() -> None:
    async def fails() -> None:
        raise ValueError

    done = asyncio.create_task(asyncio.sleep(0))
    failed = asyncio.create_task(fails())
    await asyncio.sleep(0)
    await end_tasks(done, failed)
    assert done.done()
    assert failed.done()
    await end_tasks()
