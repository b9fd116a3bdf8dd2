"""Get blocks from several nodes: what one fails to give is got anew from another.

A block that one node lies about, withholds or refuses costs a bounded number of
further requests, and only for itself; a block that no node gives right is told apart
from a node that is down.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from indexer.backoff import delay_seconds
from indexer.chain.endpoints import Endpoint, Endpoints, wait_for
from indexer.errors import (
    BlockRefused,
    ChainDataError,
    IndexerError,
    PrunedHistory,
    RpcError,
    RpcUnavailable,
    TransientError,
    WrongChain,
)

_LOG = logging.getLogger(__name__)

I = TypeVar("I")  # noqa: E741 - what is asked for
T = TypeVar("T")

# How often each endpoint is asked for a block that it does not give right. One reply
# in ten that is wrong by chance leaves one in a hundred thousand.
TRIES: Final = 5
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 1.0
# Where of more blocks than this none is to be had, it is the nodes.
_FEW: Final = 4
# So many are asked for one by one, the last time.
_FEW_ALONE: Final = 16
_ALIVE: Final = "eth_blockNumber"


class Gathered(NamedTuple, Generic[T]):
    """What was got, in order, and by height why the rest was not."""

    found: list[T]
    failed: dict[int, IndexerError]


class Gathering(Generic[I, T]):
    """One round of getting blocks, from the endpoints that there are.

    ``fetch`` returns for each item what was asked for or what is wrong with it, all
    from the endpoint it is given (C7). ``height`` says of which block an item is.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        fetch: Callable[[Endpoint, Sequence[I]], Awaitable[list[T | IndexerError]]],
        height: Callable[[I], int],
    ) -> None:
        self._endpoints = endpoints
        self._fetch = fetch
        self._height = height
        self._tries: Counter[Endpoint] = Counter()
        self._left_to: dict[Endpoint, set[int]] = {}

    async def gather(self, items: Sequence[I]) -> Gathered[T]:
        """Get the items; those that no endpoint gives right are in ``failed``.

        Raises TransientError where it is the nodes that cannot be had, and WrongChain.
        """
        found: dict[int, T] = {}
        failed: dict[int, IndexerError] = {}
        left = list(items)
        patience = self._endpoints.patience
        while left and (spent := self._spent()) != set(self._endpoints.all):
            lowest = self._height(left[0])
            endpoint = self._next(spent, lowest)
            if endpoint.breaker.wait_seconds():
                patience = await wait_for(endpoint, patience, _any_of(failed))
                continue
            await self._pause(endpoint)
            self._tries[endpoint] += 1
            outcomes = await self._ask(endpoint, left)
            for item, outcome in zip(left, outcomes, strict=True):
                number = self._height(item)
                if isinstance(outcome, IndexerError):
                    failed[number] = _without_frames(outcome)
                else:
                    found[number] = outcome
                    failed.pop(number, None)
            left = [item for item in left if self._height(item) in failed]
            self._judge(endpoint, {self._height(item) for item in left})
        await self._excuse_nodes(failed, is_all=not found)
        return Gathered(
            [found[n] for n in map(self._height, items) if n in found], failed
        )

    def _next(self, spent: set[Endpoint], lowest: int) -> Endpoint:
        """Return who is asked next: whoever was asked least, then by merit."""
        willing = [each for each in self._endpoints.all if each not in spent]
        fewest = min(self._tries[each] for each in willing)
        others = [
            each
            for each in self._endpoints.all
            if each in spent or self._tries[each] > fewest
        ]
        return self._endpoints.best(others, lowest=lowest)

    def _spent(self) -> set[Endpoint]:
        return {each for each, tries in self._tries.items() if tries >= TRIES}

    async def _pause(self, endpoint: Endpoint) -> None:
        tries = self._tries[endpoint]
        if tries:
            await asyncio.sleep(
                delay_seconds(
                    tries - 1, base=_FIRST_PAUSE_SECONDS, cap=_LONGEST_PAUSE_SECONDS
                )
            )

    async def _ask(
        self, endpoint: Endpoint, left: Sequence[I]
    ) -> list[T | IndexerError]:
        async def fetch(chosen: Endpoint) -> list[T | IndexerError]:
            if self._tries[chosen] < TRIES or len(left) > _FEW_ALONE:
                return await self._fetch(chosen, left)
            # Maybe it is batches that the node gets wrong.
            alone = await asyncio.gather(*(self._fetch(chosen, [one]) for one in left))
            return [outcome for [outcome] in alone]

        try:
            outcomes = await self._endpoints.ask(endpoint, fetch)
        except WrongChain as error:
            # It was down when the others were compared. They may do without it.
            _LOG.error("%s", error)
            self._tries[endpoint] = TRIES
            endpoint.trust.offended()
            if len(self._endpoints.all) == 1:
                raise
            return [error] * len(left)
        except (TransientError, ChainDataError, RpcError) as error:
            return [error] * len(left)
        pruned = [
            self._height(item)
            for item, outcome in zip(left, outcomes, strict=True)
            if isinstance(outcome, PrunedHistory)
        ]
        if pruned:
            # Thrown away is thrown away: asking again is of no use.
            self._tries[endpoint] = TRIES
            endpoint.history_from = max(endpoint.history_from, max(pruned) + 1)
        return outcomes

    def _judge(self, endpoint: Endpoint, left: set[int]) -> None:
        """Find out who failed to give what another then gave."""
        for other, missed in self._left_to.items():
            if other is not endpoint and missed - left:
                other.trust.offended()
                missed &= left
        self._left_to[endpoint] = set(left)

    async def _excuse_nodes(
        self, failed: dict[int, IndexerError], *, is_all: bool
    ) -> None:
        """Tell blocks that nobody gives from nodes that give nothing now.

        Raises TransientError for the latter. The former become BlockRefused.
        """
        outages = {
            number: error
            for number, error in failed.items()
            if isinstance(error, TransientError)
        }
        if not outages:
            return
        outage = next(iter(outages.values()))
        if not isinstance(outage, RpcUnavailable) or (is_all and len(failed) > _FEW):
            raise outage
        # Raises where the nodes do not answer this either.
        await self._endpoints.run(lambda endpoint: endpoint.call(_ALIVE, []))
        for number, error in outages.items():
            failed[number] = BlockRefused(
                f"no answer about block {number} after {TRIES} tries, though the node "
                f"is there: {error}",
                block_number=number,
            )


def _without_frames(error: IndexerError) -> IndexerError:
    """Let go of what the functions held that an error came through: whole replies."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error


def _any_of(failed: dict[int, IndexerError]) -> IndexerError | None:
    return next(
        (each for each in failed.values() if isinstance(each, TransientError)), None
    )
