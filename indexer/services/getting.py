"""Get the blocks of a chunk and prove them, each for itself.

What one node gives wrong is got anew from another; what none gives right is left out
and named, so that it need not hold up the others (C7, C8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from indexer.chain.endpoints import Endpoint, Endpoints
from indexer.chain.fetch import try_blocks, try_events
from indexer.chain.gather import Gathered, Gathering
from indexer.chain.tip import head_number
from indexer.errors import IndexerError, NotYetAvailable, RpcUnavailable
from indexer.ranges import runs
from indexer.rows import BlockData, BlockEvents, BlockRef
from indexer.services.proofs import Prover
from indexer.store.coverage import Certainty

T = TypeVar("T", BlockData, BlockEvents)


class Piece(NamedTuple, Generic[T]):
    """Consecutive blocks that were got, at least one, and how far they are proven."""

    data: list[T]
    certainty: Certainty


class Got(NamedTuple, Generic[T]):
    """What was got of a chunk, and by height why the rest was not."""

    pieces: list[Piece[T]]
    failed: dict[int, IndexerError]

    @property
    def raw_bytes(self) -> int:
        """How many bytes of JSON it was."""
        return sum(each.raw_bytes for piece in self.pieces for each in piece.data)


class Getter:
    """Gets chunks from whichever nodes give them right."""

    def __init__(self, endpoints: Endpoints, prover: Prover) -> None:
        self._endpoints = endpoints
        self._prover = prover

    async def blocks(self, heights: Sequence[int]) -> Got[BlockData]:
        """Get blocks by their heights.

        Raises TransientError where the nodes cannot be had now, or have not got so
        far.
        """
        gathering = Gathering(self._endpoints, self._some_blocks, _itself)
        return await self._whole(
            await gathering.gather(heights), lambda data: data.block.number
        )

    async def events(self, refs: Sequence[BlockRef]) -> Got[BlockEvents]:
        """Get the receipts and logs of stored blocks; raises likewise."""
        gathering = Gathering(self._endpoints, self._some_events, _number)
        return await self._whole(
            await gathering.gather(refs), lambda events: events.number
        )

    async def _some_blocks(
        self, endpoint: Endpoint, heights: Sequence[int]
    ) -> list[tuple[BlockData, Certainty] | IndexerError]:
        proofs: dict[int, Certainty] = {}

        def prove(data: BlockData) -> None:
            proofs[data.block.number] = self._prover.blocks([data])

        found = await try_blocks(endpoint, heights, prove=prove)
        return [
            each
            if isinstance(each, IndexerError)
            else (each, proofs[each.block.number])
            for each in found
        ]

    async def _some_events(
        self, endpoint: Endpoint, refs: Sequence[BlockRef]
    ) -> list[tuple[BlockEvents, Certainty] | IndexerError]:
        proofs: dict[int, Certainty] = {}

        def prove(ref: BlockRef, events: BlockEvents) -> None:
            proofs[ref.number] = self._prover.events([ref], [events])

        found = await try_events(endpoint, refs, prove=prove)
        return [
            each if isinstance(each, IndexerError) else (each, proofs[each.number])
            for each in found
        ]

    async def _whole(
        self,
        gathered: Gathered[tuple[T, Certainty]],
        number: Callable[[T], int],
    ) -> Got[T]:
        late = [
            error
            for error in gathered.failed.values()
            if isinstance(error, NotYetAvailable)
        ]
        if late:
            await self._raise_if_only_late(late)
        return Got(_pieces(gathered.found, number), gathered.failed)

    async def _raise_if_only_late(self, errors: Sequence[NotYetAvailable]) -> None:
        """A null above the node's own head is no fault of the block's (C4)."""
        head = await head_number(self._endpoints)
        for error in errors:
            if error.block_number is not None and error.block_number > head:
                raise RpcUnavailable(
                    f"block {error.block_number} is above the node's head, which is "
                    f"at {head}; the job waits for it"
                ) from error


def _itself(height: int) -> int:
    return height


def _number(ref: BlockRef) -> int:
    return ref.number


def _pieces(
    found: Sequence[tuple[T, Certainty]], number: Callable[[T], int]
) -> list[Piece[T]]:
    by_number = {number(data): (data, certainty) for data, certainty in found}
    pieces = []
    for run in runs(by_number):
        inside = [by_number[height] for height in run.heights()]
        certainty = Certainty(
            runs(number(data) for data, one in inside if one.proven),
            runs(number(data) for data, one in inside if one.unprovable),
        )
        pieces.append(Piece([data for data, _ in inside], certainty))
    return pieces
