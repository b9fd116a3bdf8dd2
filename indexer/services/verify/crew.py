"""Pieces in several processes, or in this one where there is little to do."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import NamedTuple

from indexer.chain.verify import Profile, profile_of, recalled_profile
from indexer.chain.verify.profiles import UNKNOWN
from indexer.db.connection import Connection, Database, connect
from indexer.db.failures import translated
from indexer.errors import IndexerError
from indexer.log import redact_url
from indexer.services.verify.faults import Found
from indexer.services.verify.piece import Auditor, Piece

# Pieces handed out beyond those that are worked on, so that nobody waits.
_AHEAD = 2


class Place(NamedTuple):
    """Where the rows are, and what can be proven of them: what a process is told.

    A profile holds functions and does not travel; its chain's id and its name do.
    """

    url: str
    schema: str
    prepared: bool
    chain_id: int | None
    profile: str

    def read_profile(self) -> Profile:
        """Return the profile."""
        known = None if self.chain_id is None else profile_of(self.chain_id)
        return known or recalled_profile(self.profile) or UNKNOWN


async def look_at_all(
    database: Database, place: Place, todo: list[Piece], *, processes: int
) -> AsyncIterator[tuple[Piece, Found]]:
    """Yield what is found in each piece, in any order.

    Raises DatabaseUnavailable where the database fails; what was yielded stays true.
    """
    if processes == 1 or len(todo) < 2:
        async with database.connection() as conn:
            auditor = Auditor(conn, place.read_profile())
            for piece in todo:
                yield piece, await auditor.look_at(piece)
        return
    pool = ProcessPoolExecutor(
        min(processes, len(todo)),
        # A fork would take along whatever threads and sockets there are here.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(place,),
    )
    try:
        with translated(f"using {redact_url(place.url)}"):
            async for done in _spread(pool, todo, processes + _AHEAD):
                yield done
    except BrokenProcessPool:
        raise IndexerError(
            "a process of the audit was killed, maybe for want of memory; run the same "
            "command again: it goes on with what is left (--processes 1 needs least)"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


async def _spread(
    pool: ProcessPoolExecutor, todo: Iterable[Piece], width: int
) -> AsyncIterator[tuple[Piece, Found]]:
    loop = asyncio.get_running_loop()
    left: Iterator[Piece] = iter(todo)
    under_way: dict[asyncio.Future[Found], Piece] = {}
    while True:
        for piece in islice(left, width - len(under_way)):
            under_way[loop.run_in_executor(pool, _look_at, piece)] = piece
        if not under_way:
            return
        done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
        for future in done:
            yield under_way.pop(future), future.result()


class _Hand:
    """What a process of the pool keeps from piece to piece."""

    def __init__(self, place: Place) -> None:
        self._loop = asyncio.new_event_loop()
        self._conn: Connection = self._loop.run_until_complete(
            connect(
                place.url,
                schema=place.schema,
                application="indexer verify",
                prepared=place.prepared,
            )
        )
        self._auditor = Auditor(self._conn, place.read_profile())

    def look_at(self, piece: Piece) -> Found:
        return self._loop.run_until_complete(self._auditor.look_at(piece))


_hands: list[_Hand] = []


def _begin(place: Place) -> None:
    # The one who started us decides when to stop, and we never outlive him.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _hands.append(_Hand(place))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        with contextlib.suppress(OSError):
            parent.join()
    os._exit(1)


def _look_at(piece: Piece) -> Found:
    return _hands[0].look_at(piece)
