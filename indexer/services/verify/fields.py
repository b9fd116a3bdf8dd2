"""Every stored field against a node's: the one proof of what no hash covers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from indexer.chain.endpoint import Endpoint
from indexer.chain.endpoints import Endpoints
from indexer.chain.fetch import fetch_blocks, fetch_events
from indexer.db.connection import Database
from indexer.ranges import BlockRange, split
from indexer.rows import BlockData, BlockEvents
from indexer.services.verify.faults import Fault, FaultKind
from indexer.store.read import begin_snapshot, read_rows
from indexer.store.tables import (
    BLOCKS,
    LOGS,
    RECEIPTS,
    TRANSACTIONS,
    WITHDRAWALS,
    Table,
)

# Blocks that are held twice at a time, however dense they are (P1).
_AT_ONCE: Final = 25
_MOST_SHOWN: Final = 3

_JSON: Final = frozenset(("access_list", "authorization_list", "extra"))


class _Whole(NamedTuple):
    """A block and, where they are stored, its receipts and logs."""

    data: BlockData
    events: BlockEvents | None

    def tables(self) -> Iterator[tuple[Table, Sequence[tuple[Any, ...]]]]:
        yield BLOCKS, [self.data.block]
        yield TRANSACTIONS, self.data.transactions
        yield WITHDRAWALS, self.data.withdrawals
        if self.events is not None:
            yield RECEIPTS, self.events.receipts
            yield LOGS, self.events.logs


class FieldComparison(NamedTuple):
    """Asks nodes for whole blocks, and holds the stored rows against them."""

    database: Database
    endpoints: Endpoints

    async def compare(self, heights: BlockRange) -> tuple[list[Fault], int]:
        """Return what differs, and how many blocks were compared.

        Blocks that are not the node's are left to the comparison of hashes. Raises
        what asking raises.
        """
        faults: list[Fault] = []
        compared = 0
        for part in split(heights, _AT_ONCE):
            ours = await self._stored(part)
            if not ours:
                continue
            theirs = await self.endpoints.run(partial(_fetch, ours=ours))
            for own, other in zip(ours, theirs, strict=True):
                if own.data.block.hash == other.data.block.hash:
                    compared += 1
                    faults += _different(own, other)
        return faults, compared

    async def _stored(self, part: BlockRange) -> list[_Whole]:
        async with self.database.connection() as conn, conn.transaction():
            await begin_snapshot(conn)
            rows = await read_rows(conn, part)
        return [
            _Whole(
                data,
                # None of a block's receipts: they are missing, which is told already.
                events if events.receipts or not data.transactions else None,
            )
            for data, events in zip(rows.blocks, rows.events, strict=True)
        ]


async def _fetch(endpoint: Endpoint, ours: Sequence[_Whole]) -> list[_Whole]:
    heights = [each.data.block.number for each in ours]
    blocks = await fetch_blocks(endpoint, heights)
    wanted = [
        data.ref()
        for own, data in zip(ours, blocks, strict=True)
        if own.events is not None and own.data.block.hash == data.block.hash
    ]
    events = {each.number: each for each in await fetch_events(endpoint, wanted)}
    return [_Whole(data, events.get(data.block.number)) for data in blocks]


def _different(own: _Whole, other: _Whole) -> Iterator[Fault]:
    number = own.data.block.number
    for (table, ours), (_, theirs) in zip(own.tables(), other.tables(), strict=True):
        said = []
        for place, (row, node_row) in enumerate(zip_longest(ours, theirs)):
            if row == node_row:
                continue
            if row is None or node_row is None:
                said.append(f"{len(ours)} rows, but the node has {len(theirs)}")
                break
            said += [
                f"{name} of row {place} is {_shown(value)}, but the node has "
                f"{_shown(wanted)}"
                for name, value, wanted in zip(
                    table.columns, row, node_row, strict=True
                )
                if value != wanted and not _same_json(name, value, wanted)
            ]
        if said:
            more = (
                f"; {len(said) - _MOST_SHOWN} more" if len(said) > _MOST_SHOWN else ""
            )
            detail = f"{table.name}: {'; '.join(said[:_MOST_SHOWN])}{more}"
            yield Fault(FaultKind.OTHER_FIELD, number, number, detail)


def _same_json(name: str, value: str | None, wanted: str | None) -> bool:
    """Tell whether two texts are the same JSON: the server writes it its own way."""
    if name not in _JSON or value is None or wanted is None:
        return False
    return bool(json.loads(value) == json.loads(wanted))


def _shown(value: object) -> str:
    text = "0x" + value.hex() if isinstance(value, bytes) else str(value)
    return "NULL" if value is None else text[:80]
