"""The hand that fills a block: transactions with their receipts, one by one."""

from __future__ import annotations

from indexer.devnode.blocks import GAS_PER_BLOB, Body, Env, Withdrawal
from indexer.devnode.draw import Draw
from indexer.devnode.receipts import Log, Receipt, bloom_bytes
from indexer.devnode.transactions import (
    AccessList,
    Authorization,
    Transaction,
    contract_address,
)
from indexer.devnode.world import World

_ZEROS = bytes(12)
_NO_BLOOM = bytes(256)
_WITHDRAWALS = 16


class BodyBuilder:
    """Collects what a block holds; everything random comes from one draw."""

    def __init__(self, world: World, env: Env, draw: Draw) -> None:
        self.world = world
        self.env = env
        self.draw = draw
        self.body = Body([], [], [])
        self._gas = 0

    def calldata(self, words: int, stray: int = 0) -> bytes:
        """Return a selector and ABI words, then ``stray`` bytes that are no word."""
        chance = self.draw.take(4 + 20 * words + stray)
        end = 4 + 20 * words
        parts = [_ZEROS + chance[at : at + 20] for at in range(4, end, 20)]
        return b"".join((chance[:4], *parts, chance[end:]))

    def log(self, topics: int, data_size: int) -> Log:
        """Return an event of some contract; with three topics it is a transfer."""
        world = self.world
        # All chances in one piece: this is the most frequent draw by far.
        chance = self.draw.take(6)
        address = world.contracts[chance[0]]
        chosen: tuple[bytes, ...] = ()
        if topics:
            signature = 0 if topics == 3 else chance[1] % len(world.signatures)
            chosen = (
                world.signatures[signature],
                world.holders[(chance[2] << 8 | chance[3]) % len(world.holders)],
                world.holders[(chance[4] << 8 | chance[5]) % len(world.holders)],
            )[:topics]
            if topics == 4:
                chosen += (self.draw.take(32),)
        mask = world.mask(address)
        for topic in chosen:
            mask |= world.mask(topic)
        return Log(address, chosen, self.draw.take(data_size), mask)

    def access_list(self, keys: tuple[int, ...]) -> AccessList:
        """Return an access list with so many storage keys for each address."""
        draw = self.draw
        return tuple(
            (draw.choice(self.world.contracts), tuple(draw.take(32) for _ in range(n)))
            for n in keys
        )

    def authorizations(self, count: int) -> tuple[Authorization, ...]:
        """Return EIP-7702 delegations; the first is valid on every chain."""
        draw = self.draw
        return tuple(
            Authorization(
                chain_id=self.world.chain_id if position else 0,
                address=draw.choice(self.world.contracts),
                nonce=draw.below(1000),
                y_parity=draw.below(2),
                r=draw.number(32),
                s=draw.number(31),
            )
            for position in range(count)
        )

    def add(
        self,
        tx_type: int,
        to: bytes | None,
        data: bytes = b"",
        logs: tuple[Log, ...] = (),
        *,
        value: int | None = None,
        status: int = 1,
        nonce: int | None = None,
        protected: bool = True,
        access_list: AccessList = (),
        blobs: int = 0,
        authorizations: tuple[Authorization, ...] = (),
        data_gas: int = 16,
    ) -> None:
        """Add a transaction and what running it left.

        ``to`` of ``None`` creates a contract; a byte of data costs ``data_gas``.
        """
        draw, base_fee = self.draw, self.env.base_fee
        chance = draw.take(80)
        accounts = self.world.accounts
        sender = accounts[(chance[0] << 8 | chance[1]) % len(accounts)]
        if nonce is None:
            nonce = chance[2] << 8 | chance[3]
        tip = (chance[4] << 8 | chance[5]) * 1000
        v = chance[6] & 1
        if not tx_type:
            v += 35 + 2 * self.world.chain_id if protected else 27
        gas_used = 21_000 + data_gas * len(data) + 3_000 * len(logs)
        if data:
            gas_used += (chance[7] << 8 | chance[8]) + (0 if to else 32_000)
        tx = Transaction(
            type=tx_type,
            sender=sender,
            nonce=nonce,
            to=to,
            value=int.from_bytes(chance[9:16], "big") if value is None else value,
            data=data,
            gas=gas_used + gas_used // 4 if data else gas_used,
            max_fee=2 * base_fee + tip if tx_type >= 2 else base_fee + tip,
            priority_fee=tip,
            v=v,
            r=int.from_bytes(chance[16:48], "big"),
            # The upper half of the range is malleable and refused (EIP-2).
            s=int.from_bytes(chance[48:80], "big") >> 1,
            protected=protected,
            access_list=access_list,
            blob_fee=10**9 if blobs else 0,
            blob_hashes=tuple([b"\x01" + draw.take(31) for _ in range(blobs)]),
            authorizations=authorizations,
        )
        self._gas += gas_used
        self.body.transactions.append(tx)
        self.body.receipts.append(
            Receipt(
                status,
                gas_used,
                self._gas,
                logs,
                bloom_bytes(logs) if logs else _NO_BLOOM,
                contract_address(sender, nonce) if to is None else None,
                blobs * GAS_PER_BLOB,
            )
        )

    def withdraw(self, count: int = _WITHDRAWALS) -> None:
        """Add withdrawals; their indexes rise from block to block."""
        first = self.env.height * _WITHDRAWALS
        for serial in range(first, first + count):
            self.body.withdrawals.append(
                Withdrawal(
                    serial,
                    self.draw.number(2),
                    self.draw.choice(self.world.accounts),
                    15_000_000 + self.draw.number(3),
                )
            )
