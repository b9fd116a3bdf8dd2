"""Blocks that show every shape there is: the profiles mixed and exotic."""

from __future__ import annotations

from indexer.devnode.body import BodyBuilder
from indexer.devnode.receipts import Log

_TYPES = (0, 1, 2, 3, 4)
# Optimism's deposits, Arbitrum's internal ones, and two that nobody uses.
_EXOTIC_TYPES = (0, 0x7E, 1, 2, 0x6A, 3, 4, 0x05, 0x7F)


def is_empty(height: int) -> bool:
    """Return whether a block holds nothing: every sixth."""
    return height % 6 == 0


def fill(block: BodyBuilder) -> None:
    """Put in every shape there is, small, within a dozen blocks.

    Some blocks hold only withdrawals, some only transactions.
    """
    _fill(block, _TYPES)


def fill_exotic(block: BodyBuilder) -> None:
    """Put in the same with transactions of unknown types among them.

    Those are encoded like type 2, which nobody can know: their hashes and roots
    cannot be proven.
    """
    _fill(block, _EXOTIC_TYPES)


def _fill(block: BodyBuilder, types: tuple[int, ...]) -> None:
    height = block.env.height
    if height % 3 == 1:
        block.withdraw(1 + height % 16)
    if height % 6 == 4:
        return
    for position in range(1 + height % 9):
        _add(block, height + position, position, types)


def _add(block: BodyBuilder, turn: int, position: int, types: tuple[int, ...]) -> None:
    draw, world = block.draw, block.world
    tx_type = types[turn % len(types)]
    to: bytes | None = draw.choice(world.contracts)
    # Types 3 and 4 cannot create a contract (EIP-4844, EIP-7702).
    if turn % 7 == 3 and tx_type < 3:
        to = None
    data = _data(block, turn) if to else draw.take(60 + turn % 40)
    failed = turn % 11 == 5
    logs = () if failed or not data else _logs(block, turn)
    block.add(
        tx_type,
        to,
        data,
        logs,
        value=(0, None, 1, (1 << 256) - 1)[turn // 5 % 4],
        status=0 if failed else 1,
        nonce=(1 << 64) - 2 if turn % 13 == 6 else None,
        protected=turn % 10 != 0,
        access_list=block.access_list(((), (0,), (1, 3))[turn % 3]) if tx_type else (),
        blobs=1 + position % 2 if tx_type == 3 else 0,
        authorizations=block.authorizations(1 + turn % 3) if tx_type == 4 else (),
    )


def _data(block: BodyBuilder, turn: int) -> bytes:
    """Return nothing, one byte, whole words, or words and some bytes more."""
    shape = turn % 4
    if shape == 0:
        return b""
    if shape == 1:
        return block.draw.take(1)
    return block.calldata(turn % 6, stray=0 if shape == 2 else 1 + turn % 31)


def _logs(block: BodyBuilder, turn: int) -> tuple[Log, ...]:
    """Return 0 to 3 logs; their topics run through 0 to 4 as turns go by."""
    sizes = (0, 32, 33, 1, 96, 31)
    return tuple(
        block.log((turn + i) % 5, sizes[(turn + i) % 6]) for i in range(turn % 4)
    )
