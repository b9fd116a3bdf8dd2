"""Claims for slots that came free, each in a task of its own.

With small batches a claim is worth few slots: were they claimed for in rounds, every
slot would wait for the slowest claim of its round, and for the round before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from indexer.tasks import end_tasks


class Refills:
    """Runs looks at once, for as long as they find more than they may take.

    ``look`` claims once and tells whether there is more; ``on_dry`` is called when
    there is not, or when a look failed. Then :meth:`raise_failure` says so.
    """

    def __init__(
        self, look: Callable[[], Awaitable[bool]], *, on_dry: Callable[[], None]
    ) -> None:
        self._look = look
        self._on_dry = on_dry
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: Exception | None = None
        self.is_flowing = False

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, count: int) -> None:
        """Have up to ``count`` looks under way."""
        for _ in range(count - len(self._tasks)):
            task = asyncio.create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def settle(self) -> None:
        """Wait for every look that is under way; start none."""
        self.is_flowing = False
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def end(self) -> None:
        """Wait for none."""
        self.is_flowing = False
        await end_tasks(*self._tasks)

    def raise_failure(self) -> None:
        """Raise what a look ended with since the last call, if one failed."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def _run(self) -> None:
        more = False
        try:
            more = await self._look()
        except Exception as error:  # noqa: BLE001 - raised in the loop that asks
            self._failure = error
        if not more:
            self.is_flowing = False
            # Gone before anybody asks whether one is under way.
            task = asyncio.current_task()
            if task is not None:
                self._tasks.discard(task)
            self._on_dry()
