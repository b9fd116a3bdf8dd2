"""Stored hashes against a node's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from indexer.chain.endpoint import Endpoint
from indexer.chain.endpoints import Endpoints
from indexer.chain.tip import Mark, marks
from indexer.db.connection import Database
from indexer.errors import (
    ChainDataError,
    RpcError,
    RpcRateLimited,
    RpcUnavailable,
)
from indexer.ranges import BlockRange
from indexer.services.verify.faults import Fault, FaultKind
from indexer.services.verify.fields import FieldComparison
from indexer.services.verify.piece import Piece
from indexer.services.verify.report import Against
from indexer.store import blocks as stored

_BATCH = 200

_UNANSWERED = (RpcUnavailable, RpcRateLimited, RpcError, ChainDataError)


class Comparison:
    """What came of asking a node for the hashes of stored blocks.

    Where blocks are linked and their headers proven, the highest one's hash commits
    to all below, so that alone is asked for.
    """

    def __init__(
        self, database: Database, endpoints: Endpoints, *, every_field: bool
    ) -> None:
        """``every_field`` has the blocks themselves compared as well."""
        self._database = database
        self._endpoints = endpoints
        self._fields = FieldComparison(database, endpoints) if every_field else None
        self._asked = 0
        self._whole = 0
        self._not_answered: list[str] = []

    def result(self) -> Against:
        """Return what to say of it."""
        names = [each.name for each in self._endpoints.all]
        return Against(names, self._asked, self._whole, self._not_answered)

    async def compare(
        self, piece: Piece, tops: Sequence[tuple[int, bytes]]
    ) -> list[Fault]:
        """Return the stored blocks of a piece that are not the node's."""
        faults = await self._compare_fields(piece)
        theirs = await self._hashes([number for number, _ in tops])
        if all(theirs.get(number, own) == own for number, own in tops):
            return faults
        # Somewhere below one of them it forks: now every height is asked for.
        for run in piece.ranges:
            faults += await self._compare_all(run)
        return faults

    async def _compare_fields(self, piece: Piece) -> list[Fault]:
        faults: list[Fault] = []
        if self._fields is None:
            return faults
        for run in piece.ranges:
            try:
                found, compared = await self._fields.compare(run)
            except _UNANSWERED as error:
                self._not_answered.append(f"the fields of blocks {run}: {error}")
                continue
            self._whole += compared
            faults += found
        return faults

    async def _compare_all(self, run: BlockRange) -> list[Fault]:
        theirs = await self._hashes(list(run.heights()))
        async with self._database.connection() as conn:
            ours = await stored.hashes(conn, run)
        return [
            Fault(
                FaultKind.OTHER_BLOCK,
                block.number,
                block.number,
                f"it is stored as 0x{block.hash.hex()}, but the node has "
                f"0x{theirs[block.number].hex()}",
            )
            for block in ours
            if theirs.get(block.number, block.hash) != block.hash
        ]

    async def _hashes(self, heights: list[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for at in range(0, len(heights), _BATCH):
            part = heights[at : at + _BATCH]
            try:
                answered = await self._endpoints.run(partial(_marks, heights=part))
            except _UNANSWERED as error:
                self._not_answered.append(f"blocks {part[0]}..{part[-1]}: {error}")
                continue
            self._asked += len(answered)
            found.update((each.number, each.hash) for each in answered)
        return found


async def _marks(endpoint: Endpoint, heights: list[int]) -> list[Mark]:
    return await marks(endpoint, heights)
