"""Who lives on a chain: its accounts, contracts and event signatures."""

from __future__ import annotations

from hashlib import sha3_256, shake_128

from indexer.devnode.hashing import bloom_mask, keccak

_ACCOUNTS = 2048
_CONTRACTS = 256
_ZEROS = bytes(12)

TRANSFER = keccak(b"Transfer(address,address,uint256)")
_SIGNATURES = (
    b"Approval(address,address,uint256)",
    b"ApprovalForAll(address,address,bool)",
    b"Deposit(address,uint256)",
    b"Withdrawal(address,uint256)",
    b"Sync(uint112,uint112)",
    b"Swap(address,uint256,uint256,uint256,uint256,address)",
    b"Swap(address,address,int256,int256,uint160,uint128,int24)",
    b"Mint(address,uint256,uint256)",
    b"Burn(address,uint256,uint256,address)",
    b"TransferSingle(address,address,address,uint256,uint256)",
    b"OwnershipTransferred(address,address)",
    b"Upgraded(address)",
)


class World:
    """The pools a chain's blocks draw from; a function of (seed, profile, id).

    Chain data repeats its addresses and event signatures, and so do these
    blocks: that keeps indexes realistic, and lets a bloom be put together from
    masks computed once.
    """

    def __init__(self, seed: int, profile: str, chain_id: int) -> None:
        self.chain_id = chain_id
        self.key = sha3_256(f"devnode 1|{seed}|{profile}|{chain_id}".encode()).digest()
        pool = shake_128(self.key + b"world").digest(20 * (_ACCOUNTS + _CONTRACTS))
        addresses = [pool[at : at + 20] for at in range(0, len(pool), 20)]
        self.accounts = tuple(addresses[:_ACCOUNTS])
        self.contracts = tuple(addresses[_ACCOUNTS:])
        self.signatures = (TRANSFER, *(keccak(text) for text in _SIGNATURES))
        self.holders = tuple(_ZEROS + address for address in self.accounts)
        self._masks = {
            value: bloom_mask(value)
            for value in (*self.contracts, *self.signatures, *self.holders)
        }

    def mask(self, value: bytes) -> int:
        """Return the bloom of one address or topic."""
        known = self._masks.get(value)
        return bloom_mask(value) if known is None else known

    def block_key(self, salt: int, height: int) -> bytes:
        """Return what everything random about one block is drawn from.

        ``salt`` tells the blocks of one fork from those of another.
        """
        return self.key + salt.to_bytes(8, "big") + height.to_bytes(8, "big")
