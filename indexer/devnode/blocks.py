"""Blocks: what their headers commit to, and the headers themselves.

The header is that of Prague: proof of stake, withdrawals, blobs, beacon root and
execution requests (of which there are none).
"""

from __future__ import annotations

from hashlib import sha256, shake_128
from typing import NamedTuple

from indexer.devnode import receipts, rlp, transactions
from indexer.devnode.hashing import keccak
from indexer.devnode.trie import EMPTY_ROOT, ordered_root
from indexer.devnode.world import World

GAS_LIMIT = 45_000_000
EXTRA_DATA = b"indexer devnode"
NO_UNCLES = keccak(b"\xc0")
# EIP-7685: with no requests, the hash of nothing.
NO_REQUESTS = sha256(b"").digest()
GAS_PER_BLOB = 131_072


class Env(NamedTuple):
    """What a block has before anything is put into it; wei and seconds."""

    height: int
    timestamp: int
    state_root: bytes
    mix_hash: bytes
    beacon_root: bytes
    miner: bytes
    base_fee: int
    excess_blob_gas: int


class Withdrawal(NamedTuple):
    """A validator's withdrawal; ``amount`` in Gwei, ``serial`` is its index."""

    serial: int
    validator: int
    address: bytes
    amount: int


class Body(NamedTuple):
    """What a block holds; a receipt for each transaction, in order."""

    transactions: list[transactions.Transaction]
    receipts: list[receipts.Receipt]
    withdrawals: list[Withdrawal]


class Roots(NamedTuple):
    """What a header commits to about its body, and the body's size in bytes."""

    transactions_root: bytes
    receipts_root: bytes
    withdrawals_root: bytes
    bloom: bytes
    gas_used: int
    blob_gas_used: int
    size: int
    transaction_hashes: tuple[bytes, ...]


EMPTY_BODY = Body([], [], [])
EMPTY_ROOTS = Roots(EMPTY_ROOT, EMPTY_ROOT, EMPTY_ROOT, bytes(256), 0, 0, 3, ())


def environment(world: World, salt: int, height: int, timestamp: int) -> Env:
    """Draw what a block has before anything is put into it."""
    chance = shake_128(world.block_key(salt, height)).digest(104)
    return Env(
        height,
        timestamp,
        chance[0:32],
        chance[32:64],
        chance[64:96],
        world.accounts[chance[96]],
        # 4.3 to 5.4 gwei.
        (1 << 32) + (int.from_bytes(chance[97:101], "big") >> 2),
        # Up to 33 million, at which a unit of blob gas costs some 800 wei.
        chance[101] * GAS_PER_BLOB,
    )


def roots(body: Body, chain_id: int) -> Roots:
    """Compute what a header commits to about this body."""
    encoded = [transactions.encode(tx, chain_id) for tx in body.transactions]
    outcomes = [
        receipts.encode(tx.type, receipt)
        for tx, receipt in zip(body.transactions, body.receipts, strict=True)
    ]
    paid = [_encode_withdrawal(item) for item in body.withdrawals]
    bloom = 0
    for receipt in body.receipts:
        bloom |= int.from_bytes(receipt.bloom, "big")
    listed = [
        item if tx.type == 0 else rlp.text(item)
        for tx, item in zip(body.transactions, encoded, strict=True)
    ]
    size = len(rlp.array(b"".join(listed))) + len(rlp.array(b"".join(paid))) + 1
    return Roots(
        ordered_root(encoded),
        ordered_root(outcomes),
        ordered_root(paid),
        bloom.to_bytes(256, "big"),
        body.receipts[-1].cumulative_gas_used if body.receipts else 0,
        sum(receipt.blob_gas_used for receipt in body.receipts),
        size,
        tuple([keccak(item) for item in encoded]),
    )


# The members of a header that are the same in every block, encoded with the
# string prefixes that surround them: a sparse chain is almost only headers.
_UNCLES = b"\xa0" + NO_UNCLES + b"\x94"
_BLOOM = b"\xb9\x01\x00"
_DIFFICULTY = b"\x80"
_LIMIT = rlp.number(GAS_LIMIT)
_EXTRA = rlp.text(EXTRA_DATA) + b"\xa0"
_NONCE = b"\x88" + bytes(8)
_REQUESTS = b"\xa0" + NO_REQUESTS


def header(parent: bytes, env: Env, committed: Roots) -> bytes:
    """Return the RLP of the header; its Keccak is the block's hash."""
    number = rlp.number
    payload = b"".join(
        (
            b"\xa0",
            parent,
            _UNCLES,
            env.miner,
            b"\xa0",
            env.state_root,
            b"\xa0",
            committed.transactions_root,
            b"\xa0",
            committed.receipts_root,
            _BLOOM,
            committed.bloom,
            _DIFFICULTY,
            number(env.height),
            _LIMIT,
            number(committed.gas_used),
            number(env.timestamp),
            _EXTRA,
            env.mix_hash,
            _NONCE,
            number(env.base_fee),
            b"\xa0",
            committed.withdrawals_root,
            number(committed.blob_gas_used),
            number(env.excess_blob_gas),
            b"\xa0",
            env.beacon_root,
            _REQUESTS,
        )
    )
    return rlp.array(payload)


# What a header takes with numbers of one byte each.
_ZERO = Env(0, 0, bytes(32), bytes(32), bytes(32), bytes(20), 0, 0)
_FIXED_SIZE = len(header(bytes(32), _ZERO, EMPTY_ROOTS))


def block_size(env: Env, committed: Roots) -> int:
    """Return the bytes of the whole block's RLP, which nodes call its size."""
    size = _FIXED_SIZE + committed.size
    for value in (
        env.height,
        committed.gas_used,
        env.timestamp,
        env.base_fee,
        committed.blob_gas_used,
        env.excess_blob_gas,
    ):
        if value >= 0x80:
            size += (value.bit_length() + 7) >> 3
    return rlp.array_size(size)


def _encode_withdrawal(item: Withdrawal) -> bytes:
    return rlp.array(
        rlp.number(item.serial)
        + rlp.number(item.validator)
        + b"\x94"
        + item.address
        + rlp.number(item.amount)
    )
