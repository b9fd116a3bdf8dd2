"""Transactions of types 0 to 4: their EIP-2718 encoding and geth's JSON.

The signatures are pseudo-random numbers: the hash of a transaction is the proper
hash of its encoding, but no sender can be recovered from it.
"""

from __future__ import annotations

from typing import NamedTuple

from indexer.devnode import rlp
from indexer.devnode.hashing import keccak

AccessList = tuple[tuple[bytes, tuple[bytes, ...]], ...]


class Authorization(NamedTuple):
    """One EIP-7702 delegation."""

    chain_id: int
    address: bytes
    nonce: int
    y_parity: int
    r: int
    s: int


class Transaction(NamedTuple):
    """A signed transaction; fees in wei.

    ``max_fee`` and ``priority_fee`` are the gas price where the type knows only
    one. ``v`` is the parity for typed transactions, 27/28 or EIP-155's for
    legacy ones, where ``protected`` says which.
    """

    type: int
    sender: bytes
    nonce: int
    to: bytes | None
    value: int
    data: bytes
    gas: int
    max_fee: int
    priority_fee: int
    v: int
    r: int
    s: int
    protected: bool = True
    access_list: AccessList = ()
    blob_fee: int = 0
    blob_hashes: tuple[bytes, ...] = ()
    authorizations: tuple[Authorization, ...] = ()

    def price(self, base_fee: int) -> int:
        """Return the effective gas price in a block with this base fee."""
        if self.type < 2:
            return self.max_fee
        return min(self.max_fee, base_fee + self.priority_fee)


def encode(tx: Transaction, chain_id: int) -> bytes:
    """Return the EIP-2718 encoding: what the hash and the trie are made of.

    Source: EIP-155, EIP-2930, EIP-1559, EIP-4844, EIP-7702.
    """
    number = rlp.number
    to = b"\x80" if tx.to is None else b"\x94" + tx.to
    call = number(tx.gas) + to + number(tx.value) + rlp.text(tx.data)
    signature = number(tx.v) + number(tx.r) + number(tx.s)
    if tx.type == 0:
        return rlp.array(number(tx.nonce) + number(tx.max_fee) + call + signature)
    start = number(chain_id) + number(tx.nonce)
    access = _encode_access_list(tx.access_list)
    if tx.type == 1:
        return b"\x01" + rlp.array(
            start + number(tx.max_fee) + call + access + signature
        )
    body = start + number(tx.priority_fee) + number(tx.max_fee) + call + access
    if tx.type == 3:
        hashes = b"".join(b"\xa0" + item for item in tx.blob_hashes)
        body += number(tx.blob_fee) + rlp.array(hashes)
    elif tx.type == 4:
        body += rlp.array(b"".join(map(_encode_authorization, tx.authorizations)))
    return bytes((tx.type,)) + rlp.array(body + signature)


def contract_address(sender: bytes, nonce: int) -> bytes:
    """Return where a creation by this sender at this nonce puts its code."""
    return keccak(rlp.array(b"\x94" + sender + rlp.number(nonce)))[12:]


def _encode_access_list(access_list: AccessList) -> bytes:
    if not access_list:
        return b"\xc0"
    return rlp.array(
        b"".join(
            rlp.array(
                b"\x94" + address + rlp.array(b"".join(b"\xa0" + key for key in keys))
            )
            for address, keys in access_list
        )
    )


def _encode_authorization(item: Authorization) -> bytes:
    number = rlp.number
    return rlp.array(
        number(item.chain_id)
        + b"\x94"
        + item.address
        + number(item.nonce)
        + number(item.y_parity)
        + number(item.r)
        + number(item.s)
    )


def render(
    tx: Transaction,
    tx_hash: str,
    index: int,
    *,
    place: str,
    base_fee: int,
    chain_id: int,
) -> str:
    """Return the JSON object of a mined transaction, as geth 1.16 shapes it.

    ``place`` is the part that all transactions of a block share; ``tx_hash``
    comes with its 0x.
    """
    to = "null" if tx.to is None else f'"0x{tx.to.hex()}"'
    start = (
        f'{{{place},"from":"0x{tx.sender.hex()}","gas":"{tx.gas:#x}",'
        f'"gasPrice":"{tx.price(base_fee):#x}",'
    )
    if tx.type >= 2:
        start += (
            f'"maxFeePerGas":"{tx.max_fee:#x}",'
            f'"maxPriorityFeePerGas":"{tx.priority_fee:#x}",'
        )
    if tx.type == 3:
        start += f'"maxFeePerBlobGas":"{tx.blob_fee:#x}",'
    start += (
        f'"hash":"{tx_hash}","input":"0x{tx.data.hex()}","nonce":"{tx.nonce:#x}",'
        f'"to":{to},"transactionIndex":"{index:#x}","value":"{tx.value:#x}",'
        f'"type":"{tx.type:#x}",'
    )
    signature = f'"v":"{tx.v:#x}","r":"{tx.r:#x}","s":"{tx.s:#x}"'
    if tx.type == 0:
        if tx.protected:
            start += f'"chainId":"{chain_id:#x}",'
        return start + signature + "}"
    access = _render_access_list(tx.access_list) if tx.access_list else "[]"
    start += f'"accessList":{access},"chainId":"{chain_id:#x}",'
    if tx.type == 3:
        hashes = ",".join(f'"0x{item.hex()}"' for item in tx.blob_hashes)
        start += f'"blobVersionedHashes":[{hashes}],'
    elif tx.type == 4:
        items = ",".join(map(_render_authorization, tx.authorizations))
        start += f'"authorizationList":[{items}],'
    return f'{start}{signature},"yParity":"{tx.v:#x}"}}'


def _render_access_list(access_list: AccessList) -> str:
    entries = []
    for address, keys in access_list:
        shown = ",".join(f'"0x{key.hex()}"' for key in keys)
        entries.append(f'{{"address":"0x{address.hex()}","storageKeys":[{shown}]}}')
    return f"[{','.join(entries)}]"


def _render_authorization(item: Authorization) -> str:
    return (
        f'{{"chainId":"{item.chain_id:#x}","address":"0x{item.address.hex()}",'
        f'"nonce":"{item.nonce:#x}","yParity":"{item.y_parity:#x}",'
        f'"r":"{item.r:#x}","s":"{item.s:#x}"}}'
    )
