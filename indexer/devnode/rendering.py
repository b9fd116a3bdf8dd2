"""Blocks as JSON, in the shape geth 1.16 gives them."""

from __future__ import annotations

from typing import NamedTuple

from indexer.devnode import receipts, transactions
from indexer.devnode.blocks import (
    EMPTY_ROOTS,
    EXTRA_DATA,
    GAS_LIMIT,
    NO_REQUESTS,
    NO_UNCLES,
    Body,
    Env,
    Roots,
    Withdrawal,
    block_size,
)
from indexer.devnode.trie import EMPTY_ROOT

# EIP-7691, the update fraction since Prague.
_BLOB_UPDATE_FRACTION = 5_007_716


class Rendered(NamedTuple):
    """A block's JSON: the object in three parts, with its transactions or hashes.

    ``receipts`` is the list that ``eth_getBlockReceipts`` gives.
    """

    head: bytes
    transactions: bytes
    tail: bytes
    hashes: bytes
    receipts: bytes

    def block(self, full: bool) -> bytes:
        """Return the block's object, with whole transactions or their hashes."""
        middle = self.transactions if full else self.hashes
        return self.head + middle + self.tail


def render(
    own: bytes,
    parent: bytes,
    env: Env,
    body: Body,
    committed: Roots,
    *,
    chain_id: int,
    log_timestamps: bool,
) -> Rendered:
    """Return a block's JSON as geth 1.16 shapes it.

    ``own`` and ``parent`` are hashes. ``log_timestamps`` puts the member
    ``blockTimestamp`` into logs, as later versions do.
    """
    head = _HEAD % (
        env.base_fee,
        committed.blob_gas_used,
        env.excess_blob_gas,
        committed.gas_used,
        own.hex().encode(),
        committed.bloom.hex().encode(),
        env.miner.hex().encode(),
        env.mix_hash.hex().encode(),
        env.height,
        env.beacon_root.hex().encode(),
        parent.hex().encode(),
        committed.receipts_root.hex().encode(),
        block_size(env, committed),
        env.state_root.hex().encode(),
        env.timestamp,
    )
    tail = _TAIL % (
        committed.transactions_root.hex().encode(),
        ",".join(map(_render_withdrawal, body.withdrawals)).encode(),
        committed.withdrawals_root.hex().encode(),
    )
    if not body.transactions:
        return Rendered(head, b"[]", tail, b"[]", b"[]")
    place = receipts.Place(
        f"{env.height:#x}",
        f"0x{own.hex()}",
        f"{env.timestamp:#x}" if log_timestamps else None,
        blob_gas_price(env.excess_blob_gas),
        env.base_fee,
    )
    hashes = [f"0x{item.hex()}" for item in committed.transaction_hashes]
    return Rendered(
        head,
        _render_transactions(body, hashes, place, chain_id),
        tail,
        ('["' + '","'.join(hashes) + '"]').encode(),
        _render_receipts(body, hashes, place),
    )


_HEAD = (
    b'{"baseFeePerGas":"%#x","blobGasUsed":"%#x","difficulty":"0x0",'
    b'"excessBlobGas":"%#x","extraData":"0x'
    + EXTRA_DATA.hex().encode()
    + b'","gasLimit":"'
    + hex(GAS_LIMIT).encode()
    + b'","gasUsed":"%#x","hash":"0x%s","logsBloom":"0x%s","miner":"0x%s",'
    b'"mixHash":"0x%s","nonce":"0x0000000000000000","number":"%#x",'
    b'"parentBeaconBlockRoot":"0x%s","parentHash":"0x%s","receiptsRoot":"0x%s",'
    b'"requestsHash":"0x'
    + NO_REQUESTS.hex().encode()
    + b'","sha3Uncles":"0x'
    + NO_UNCLES.hex().encode()
    + b'","size":"%#x","stateRoot":"0x%s","timestamp":"%#x","transactions":'
)
_TAIL = (
    b',"transactionsRoot":"0x%s","uncles":[],"withdrawals":[%s],'
    b'"withdrawalsRoot":"0x%s"}'
)


# The same for a block that holds nothing: of ten sparse blocks nine are served from
# this, so all that such blocks share is in it already.
_EMPTY = (
    _HEAD.decode()
    .replace('"gasUsed":"%#x"', '"gasUsed":"0x0"')
    .replace('"blobGasUsed":"%#x"', '"blobGasUsed":"0x0"')
    .replace('"logsBloom":"0x%s"', f'"logsBloom":"0x{EMPTY_ROOTS.bloom.hex()}"')
    .replace('"receiptsRoot":"0x%s"', f'"receiptsRoot":"0x{EMPTY_ROOT.hex()}"')
    + "[]"
    + _TAIL.decode() % (EMPTY_ROOT.hex(), "", EMPTY_ROOT.hex())
)


def render_empty(own: bytes | bytearray, parent: bytes | bytearray, env: Env) -> bytes:
    """Return the JSON of a block that holds nothing, as :func:`render` would."""
    shown = _EMPTY % (
        env.base_fee,
        env.excess_blob_gas,
        own.hex(),
        env.miner.hex(),
        env.mix_hash.hex(),
        env.height,
        env.beacon_root.hex(),
        parent.hex(),
        block_size(env, EMPTY_ROOTS),
        env.state_root.hex(),
        env.timestamp,
    )
    return shown.encode()


def blob_gas_price(excess_blob_gas: int) -> int:
    """Return the price of a unit of blob gas in wei.

    Source: ``fake_exponential`` of EIP-4844 with the fraction of EIP-7691.
    """
    total, term, step = 0, _BLOB_UPDATE_FRACTION, 1
    while term > 0:
        total += term
        term = term * excess_blob_gas // (_BLOB_UPDATE_FRACTION * step)
        step += 1
    return total // _BLOB_UPDATE_FRACTION


def _render_transactions(
    body: Body, hashes: list[str], at: receipts.Place, chain_id: int
) -> bytes:
    place = f'"blockHash":"{at.block_hash}","blockNumber":"{at.number}"'
    shown = [
        transactions.render(
            tx, hashes[i], i, place=place, base_fee=at.base_fee, chain_id=chain_id
        )
        for i, tx in enumerate(body.transactions)
    ]
    return f"[{','.join(shown)}]".encode()


def _render_receipts(body: Body, hashes: list[str], at: receipts.Place) -> bytes:
    shown = []
    first_log = 0
    for i, (tx, receipt) in enumerate(
        zip(body.transactions, body.receipts, strict=True)
    ):
        shown.append(receipts.render(tx, hashes[i], i, receipt, first_log, at))
        first_log += len(receipt.logs)
    return f"[{','.join(shown)}]".encode()


def _render_withdrawal(item: Withdrawal) -> str:
    return (
        f'{{"index":"{item.serial:#x}","validatorIndex":"{item.validator:#x}",'
        f'"address":"0x{item.address.hex()}","amount":"{item.amount:#x}"}}'
    )
