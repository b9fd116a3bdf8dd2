"""Single roles (the follower), held under a lease and fenced by a token.

Like a job's claim, but without a reaper: a lapsed lease may be taken by whoever asks
first, which gives it a new token and so refuses the former holder's next write.
"""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from indexer.db.connection import Connection
from indexer.db.queries import load
from indexer.errors import LeaseLost

_QUERIES = load("leases")
_CLAIM = _QUERIES["claim_role"]
_FENCE = _QUERIES["fence_role"]
_RELEASE = _QUERIES["release_role"]
_HOLDER = _QUERIES["role_holder"]


class RoleHolder(NamedTuple):
    """Who holds a role; ``left`` is how long the lease still runs, or negative."""

    holder: str
    left: timedelta


async def claim_role(
    conn: Connection, *, name: str, holder: str, lease: timedelta
) -> UUID | None:
    """Take the role; return its token, None while somebody else holds it."""
    row = await _CLAIM.row(conn, name=name, holder=holder, lease=lease)
    return None if row is None else row[0]


async def fence_role(
    conn: Connection, *, name: str, token: UUID, lease: timedelta
) -> None:
    """Hold and renew the role for the caller's transaction.

    Raises LeaseLost where another process has taken it.
    """
    if await _FENCE.row(conn, name=name, token=token, lease=lease) is None:
        raise LeaseLost(f"the role {name} was taken over by another process")


async def release_role(conn: Connection, *, name: str, token: UUID) -> None:
    """Give the role back, if it is still ours."""
    await _RELEASE.run(conn, name=name, token=token)


async def role_holder(conn: Connection, *, name: str) -> RoleHolder | None:
    """Return who holds the role, lapsed or not; None where nobody does."""
    row = await _HOLDER.row(conn, name=name)
    return None if row is None else RoleHolder(*row)
