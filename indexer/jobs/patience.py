"""Loops that outlive what they depend on: nothing here ends of an exception."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from indexer.backoff import delay_seconds
from indexer.errors import MigrationError, TransientError

_LOG = logging.getLogger(__name__)

_BASE_SECONDS = 0.2
# An idle machine that waits for its database knocks this often at most.
_CAP_SECONDS = 10.0

Result = TypeVar("Result")


async def until_answered(
    doing: str, operation: Callable[[], Awaitable[Result]], *, random: Random
) -> Result:
    """Repeat an operation until the database answers; other errors pass through."""
    failures = 0
    while True:
        try:
            return await operation()
        except TransientError as error:
            _complain(doing, failures, error)
            await _pause(failures, random)
            failures += 1


async def keep_going(
    doing: str, operation: Callable[[], Awaitable[Result]], *, random: Random
) -> Result:
    """Run a loop's body until it returns, and start it again after any exception.

    The log says it once an outage, not once a try.
    """
    failures = 0
    while True:
        try:
            return await operation()
        except (TransientError, MigrationError) as error:
            _complain(doing, failures, error)
        except Exception:  # noqa: BLE001 - logged with its traceback
            _LOG.exception("%s: unexpected error, going on", doing)
        await _pause(failures, random)
        failures += 1


def _complain(doing: str, failures: int, error: Exception) -> None:
    level = logging.WARNING if failures == 0 else logging.DEBUG
    _LOG.log(level, "%s: %s; trying again", doing, error)


async def _pause(failures: int, random: Random) -> None:
    await asyncio.sleep(
        delay_seconds(failures, base=_BASE_SECONDS, cap=_CAP_SECONDS, random=random)
    )
