"""How far, how fast, until when, and what stands in the way; cheap at any size.

Nothing here reads a large table from end to end: progress and gaps come from the
coverage notes, which are kept with the data, running and failed jobs from small
indexes, what finished lately from the end of history, pending jobs of a large queue
from a sample. What is estimated says so. Each part is a dict that is ready for JSON:

- ``progress``: planned, stored, missing; rate and time of arrival
- ``queue``: counts, waits, durations, rates of trouble
- ``people``: workers and their claims, endpoints, the tip
- ``health``: what the database suffers
"""

from __future__ import annotations

from typing import Any

from indexer.db.connection import Connection, Database
from indexer.services.status.health import read_health
from indexer.services.status.lately import read_lately
from indexer.services.status.pace import Pace
from indexer.services.status.people import read_endpoints, read_tip, read_workers
from indexer.services.status.progress import read_progress
from indexer.services.status.queue import read_failed, read_queue
from indexer.store import chain

__all__ = ["Pace", "read_status"]


async def read_status(
    database: Database, *, pace: Pace | None = None
) -> dict[str, Any]:
    """Return everything ``indexer status`` shows, ready for JSON.

    ``pace`` remembers earlier calls, which makes the rate that of what was stored in
    between; without, it is worked out of the jobs' own times.
    """
    async with database.connection() as conn:
        lately = await read_lately(conn)
        return {
            "schema": conn.schema,
            "chain": await _chain(conn),
            "progress": await read_progress(conn, lately=lately, pace=pace),
            "tip": await read_tip(conn),
            "queue": await read_queue(conn, lately=lately),
            "failed": await read_failed(conn),
            "workers": await read_workers(conn),
            "endpoints": await read_endpoints(conn),
            "database": await read_health(conn),
        }


async def _chain(conn: Connection) -> dict[str, Any] | None:
    held = await chain.identity(conn)
    if held is None:
        return None
    return {
        "chain_id": held.chain_id,
        "genesis_hash": "0x" + held.genesis_hash.hex(),
    }
