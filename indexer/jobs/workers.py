"""Who is alive: an entry for each worker process, renewed by its heartbeat."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

import indexer
from indexer.db.committed import rows_committed
from indexer.db.connection import Connection
from indexer.db.queries import load

_QUERIES = load("workers")
_SEE = _QUERIES["see_worker"]
_FORGET = _QUERIES["forget_worker"]
_RETIRE = _QUERIES["retire_workers"]


def worker_name() -> str:
    """Return a name that no other process ever had.

    Host and pid are not enough: a restarted container has the same ones.
    """
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


class Identity(NamedTuple):
    """One process's entry in ``workers``; ``name`` is ``locked_by`` of its claims."""

    name: str
    role: str
    host: str
    pid: int
    version: str
    concurrency: int
    kinds: Sequence[str]

    @classmethod
    def of_this_process(
        cls,
        *,
        role: str,
        name: str | None = None,
        concurrency: int = 1,
        kinds: Sequence[str] = (),
    ) -> Identity:
        """Return the identity of this process; ``name`` None is a new one."""
        return cls(
            name=name if name is not None else worker_name(),
            role=role,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=indexer.__version__,
            concurrency=concurrency,
            kinds=sorted(kinds),
        )

    def parameters(self) -> dict[str, object]:
        """Return the entry as ``see_worker`` takes it."""
        return {**self._asdict(), "kinds": list(self.kinds)}


async def see(conn: Connection, *, identity: Identity) -> None:
    """Register a process, or note that it is still there."""
    await _SEE.run(conn, **identity.parameters())


async def forget(conn: Connection, *, name: str) -> None:
    """Take out the entry of a process that leaves in order."""
    await _FORGET.run(conn, name=name)


async def retire(conn: Connection, *, unseen: timedelta) -> list[str]:
    """Take out the entries of processes not seen for long; return their names."""
    return [row[0] for row in await rows_committed(conn, _RETIRE, unseen=unseen)]
