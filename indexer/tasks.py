"""Ending tasks that run beside others."""

from __future__ import annotations

import asyncio
from typing import Any, Final

_AGAIN_SECONDS: Final = 1.0


async def end_tasks(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until they have ended, however they do.

    They are told until they have: before Python 3.12 ``asyncio.wait_for``, by which
    the connection pool waits, swallows a cancellation that comes in the same round of
    the loop as what it waits for, and an endless loop would go on for ever.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        ended, left = await asyncio.wait(left, timeout=_AGAIN_SECONDS)
        for task in ended:
            if not task.cancelled():
                # Looked at, so that nobody is told of it later.
                task.exception()
