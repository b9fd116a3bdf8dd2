"""Stop a process whose schema was migrated to one that it cannot serve."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import uniform
from typing import Final

from indexer.db.connection import Database
from indexer.db.migrate import check_schema
from indexer.errors import MigrationError, TransientError
from indexer.tasks import end_tasks

# A look costs two small reads. What meets the new schema before is put off, not lost.
_LOOK_SECONDS: Final = 5.0


@asynccontextmanager
async def schema_watched(
    database: Database, request_stop: Callable[[], None], *, enabled: bool = True
) -> AsyncIterator[None]:
    """Tell the body to hand back at once when the schema fits no more.

    ``request_stop`` is called as by two signals. When the body has ended, raises
    MigrationError with what is wrong; also where the body stumbled over it itself.
    """
    if not enabled:
        yield
        return
    found: list[MigrationError] = []

    async def watch() -> None:
        while not found:
            await asyncio.sleep(_LOOK_SECONDS * uniform(0.8, 1.0))
            misfit = await _misfit(database)
            if misfit is not None:
                found.append(misfit)
                request_stop()
                request_stop()

    watching = asyncio.create_task(watch())
    try:
        yield
    except MigrationError as error:
        raise await _misfit(database) or error from None
    finally:
        await end_tasks(watching)
    if found:
        raise found[0]


async def _misfit(database: Database) -> MigrationError | None:
    """Return why the schema cannot be served; None where it can, or nobody answers."""
    try:
        async with database.connection() as conn:
            await check_schema(conn)
    except TransientError:
        return None
    except MigrationError as error:
        return error
    return None
