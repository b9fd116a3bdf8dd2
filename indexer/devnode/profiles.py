"""What the blocks of a chain hold: sparse, dense, mixed or exotic."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from indexer.devnode import mixed
from indexer.devnode.blocks import EMPTY_BODY, Body, Env
from indexer.devnode.body import BodyBuilder
from indexer.devnode.draw import Draw
from indexer.devnode.huge import fill_huge
from indexer.devnode.receipts import Log
from indexer.devnode.world import World


class Profile(NamedTuple):
    """A way to fill blocks.

    ``is_empty`` says of a height that its block holds nothing, without drawing
    it. ``draw_bytes`` is about how much chance a block takes. A ``heavy`` block
    is rendered when the chain first reaches it, because making it twice costs
    more than keeping it.
    """

    name: str
    is_empty: Callable[[int], bool]
    fill: Callable[[BodyBuilder], None]
    draw_bytes: int
    heavy: bool

    def body(self, world: World, env: Env, salt: int) -> Body:
        """Return what the block at this height holds; genesis holds nothing."""
        if env.height == 0 or self.is_empty(env.height):
            return EMPTY_BODY
        key = world.block_key(salt, env.height) + b"body"
        builder = BodyBuilder(world, env, Draw(key, self.draw_bytes))
        self.fill(builder)
        return builder.body


def _sparse_is_empty(height: int) -> bool:
    # One block of each ten is used, and not always the same one of them.
    return height % 10 != height // 10 * 7 % 10


def _fill_sparse(block: BodyBuilder) -> None:
    """Put in 1 to 5 transactions, as on mainnet below 2,000,000."""
    draw, world = block.draw, block.world
    for _ in range(1 + draw.below(5)):
        kind = draw.below(10)
        tx_type = 2 if kind == 9 else 0
        if kind < 5:
            block.add(tx_type, draw.choice(world.accounts))
        elif kind < 9:
            logs = tuple(block.log(draw.below(4), 32) for _ in range(draw.below(3)))
            block.add(tx_type, draw.choice(world.contracts), block.calldata(2), logs)
        else:
            block.add(tx_type, None, draw.take(200))
    if draw.below(10) == 0:
        block.withdraw(4)


# Of a dense block: how many, their type, and what they do. With the logs of each
# kind this makes 180 transactions and 380 logs.
_DENSE_MIX = (
    (38, 2, "transfer"),
    (12, 0, "transfer"),
    (58, 2, "token"),
    (10, 0, "token"),
    (2, 1, "token"),
    (36, 2, "swap"),
    (4, 0, "swap"),
    (6, 2, "bundle"),
    (1, 0, "bundle"),
    (3, 4, "bundle"),
    (3, 2, "failed"),
    (1, 0, "failed"),
    (3, 3, "blob"),
    (1, 2, "rollup"),
    (2, 2, "create"),
)
_DENSE_ORDER = tuple(
    (tx_type, kind) for count, tx_type, kind in _DENSE_MIX for _ in range(count)
)
# (topics, bytes of data) of the logs of a swap and of a bundle.
_SWAP_LOGS = ((3, 32), (3, 32), (1, 64), (3, 160), (3, 32), (2, 32))
_BUNDLE_LOGS = ((3, 32), (4, 0), (2, 64), (0, 77), (3, 32), (1, 128), (4, 32))


def _events(block: BodyBuilder, shapes: tuple[tuple[int, int], ...]) -> tuple[Log, ...]:
    return tuple([block.log(topics, size) for topics, size in shapes])


def _fill_dense(block: BodyBuilder) -> None:
    """Put in what a full block of mainnet holds."""
    order = list(_DENSE_ORDER)
    block.draw.shuffle(order)
    for tx_type, kind in order:
        _DENSE_KINDS[kind](block, tx_type)
    block.withdraw()


def _transfer(block: BodyBuilder, tx_type: int) -> None:
    block.add(tx_type, block.draw.choice(block.world.accounts))


def _token(block: BodyBuilder, tx_type: int) -> None:
    access = block.access_list((2,)) if tx_type == 1 else ()
    logs = (block.log(3, 32),)
    to = block.draw.choice(block.world.contracts)
    block.add(tx_type, to, block.calldata(2), logs, value=0, access_list=access)


def _swap(block: BodyBuilder, tx_type: int) -> None:
    data = block.calldata(7 + block.draw.below(12))
    to = block.draw.choice(block.world.contracts)
    block.add(tx_type, to, data, _events(block, _SWAP_LOGS))


def _bundle(block: BodyBuilder, tx_type: int) -> None:
    data = block.calldata(20 + block.draw.below(12), stray=3)
    to = block.draw.choice(block.world.contracts)
    signed = block.authorizations(1) if tx_type == 4 else ()
    logs = _events(block, _BUNDLE_LOGS)
    block.add(tx_type, to, data, logs, authorizations=signed)


def _failed(block: BodyBuilder, tx_type: int) -> None:
    to = block.draw.choice(block.world.contracts)
    block.add(tx_type, to, block.calldata(5), status=0)


def _blob(block: BodyBuilder, tx_type: int) -> None:
    to = block.draw.choice(block.world.contracts)
    block.add(tx_type, to, block.calldata(4), value=0, blobs=1 + block.draw.below(3))


def _rollup(block: BodyBuilder, tx_type: int) -> None:
    block.add(tx_type, block.draw.choice(block.world.accounts), block.draw.take(15_000))


def _create(block: BodyBuilder, tx_type: int) -> None:
    block.add(tx_type, None, block.draw.take(3000), value=0)


_DENSE_KINDS: dict[str, Callable[[BodyBuilder, int], None]] = {
    "transfer": _transfer,
    "token": _token,
    "swap": _swap,
    "bundle": _bundle,
    "failed": _failed,
    "blob": _blob,
    "rollup": _rollup,
    "create": _create,
}


def _dense_is_empty(height: int) -> bool:
    return height == 0


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("sparse", _sparse_is_empty, _fill_sparse, 1_024, heavy=False),
        Profile("dense", _dense_is_empty, _fill_dense, 98_304, heavy=True),
        Profile("mixed", mixed.is_empty, mixed.fill, 8_192, heavy=False),
        Profile("exotic", mixed.is_empty, mixed.fill_exotic, 8_192, heavy=False),
    )
}


def profile_of(name: str, huge_height: int | None, huge_bytes: int) -> Profile:
    """Return a profile, at one height with a huge block if there is to be one."""
    profile = PROFILES[name]
    if huge_height is None:
        return profile

    def is_empty(height: int) -> bool:
        return height != huge_height and profile.is_empty(height)

    def fill(block: BodyBuilder) -> None:
        if block.env.height == huge_height:
            fill_huge(block, huge_bytes)
        else:
            profile.fill(block)

    return profile._replace(is_empty=is_empty, fill=fill)
