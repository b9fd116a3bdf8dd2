"""Prove a block: its header's hash, its transactions and its withdrawals."""

from __future__ import annotations

from functools import partial
from typing import Final, cast

from indexer.chain.verify.headers import header_hash
from indexer.chain.verify.keccak import keccak, keccaks
from indexer.chain.verify.profiles import Commitment, Profile
from indexer.chain.verify.proof import Ledger, Proof
from indexer.chain.verify.rlp import EMPTY_ARRAY, array, fresh_number, text
from indexer.chain.verify.statesync import is_state_sync
from indexer.chain.verify.transactions import BLOB, Whole, encode_transaction
from indexer.chain.verify.trie import EMPTY_ROOT, ordered_root
from indexer.chain.verify.unprovable import Unprovable
from indexer.rows import BlockData, BlockRow, TransactionRow, WithdrawalRow

_NO_UNCLES: Final = keccak(EMPTY_ARRAY)


def prove_block(data: BlockData, profile: Profile) -> Proof:
    """Prove a block from its rows, which are in index order.

    Raises ProofFailed where the data is not what the block's hash commits to, and
    InconsistentResponse where it cannot be any block's.
    """
    block = data.block
    ledger = Ledger(block.number, profile)
    ledger.prove(Commitment.HEADER, partial(_header, ledger, block))
    ledger.prove(Commitment.TRANSACTIONS, partial(_transactions, ledger, data, profile))
    if block.withdrawals_root is not None or data.withdrawals:
        ledger.prove(
            Commitment.WITHDRAWALS, partial(_withdrawals, ledger, data, profile)
        )
    return ledger.proof()


def prove_header(block: BlockRow, profile: Profile) -> Proof:
    """Prove that a header's fields give its hash. Raises as :func:`prove_block`."""
    ledger = Ledger(block.number, profile)
    ledger.prove(Commitment.HEADER, partial(_header, ledger, block))
    return ledger.proof()


def _header(ledger: Ledger, block: BlockRow) -> None:
    computed = header_hash(block)
    ledger.compare(Commitment.HEADER, block.hash, computed, "hash of its header")
    # The uncles' headers are not stored; that there are none is in this header.
    if block.uncles is not None and (not block.uncles) != (
        block.sha3_uncles == _NO_UNCLES
    ):
        raise ledger.inconsistent(
            f"lists {len(block.uncles)} uncles, which its sha3Uncles denies"
        )


def _transactions(ledger: Ledger, data: BlockData, profile: Profile) -> None:
    block, rows = data.block, data.transactions
    ledger.in_place(rows, "transaction")
    synced = None
    if profile.state_sync and rows and is_state_sync(rows[-1].hash, block):
        *rows, synced = rows
    rows, encoded, reason = _encode(rows, profile)
    hashes = [row.hash for row in rows]
    computed = keccaks(encoded)
    if computed != hashes:
        for row, own in zip(rows, computed, strict=True):
            what = f"hash of transaction {row.transaction_index}"
            ledger.compare(Commitment.TRANSACTIONS, row.hash, own, what)
    if reason is not None:
        raise Unprovable(reason)
    root, what = ordered_root(encoded), "transactions root"
    if profile.blobs_in_root and block.transactions_root not in (None, root):
        _blame_blobs(rows)
    ledger.compare(Commitment.TRANSACTIONS, block.transactions_root, root, what)
    if synced is not None and _says_something(synced):
        raise Unprovable("the state-sync transaction's fields are in no root")


def _encode(
    rows: list[TransactionRow], profile: Profile
) -> tuple[list[TransactionRow], list[bytes], str | None]:
    """Return what can be encoded, encoded, and why the first other one can not."""
    encoders = profile.encoders
    try:
        whole = cast("list[Whole]", rows)
        return rows, [encoders[row.type](row) for row in whole], None
    except (KeyError, TypeError, ValueError, Unprovable):
        # Some row is special: find out which and why.
        pass
    known, encoded, reason = [], [], None
    for row in rows:
        try:
            encoded.append(encode_transaction(row, encoders))
        except Unprovable as error:
            reason = reason or f"transaction {row.transaction_index}: {error}"
        except ValueError as error:
            problem = f"transaction {row.transaction_index}: {error}"
            raise ValueError(problem) from error
        else:
            known.append(row)
    return known, encoded, reason


def _blame_blobs(rows: list[TransactionRow]) -> None:
    """Raise Unprovable for a transaction that the root may hold with its blobs."""
    for row in rows:
        if row.type == BLOB:
            raise Unprovable(
                f"the root may hold transaction {row.transaction_index} with its blobs"
            )


def _says_something(row: TransactionRow) -> bool:
    """Tell whether a state-sync transaction is more than its hash."""
    numbers = (row.value, row.gas, row.gas_price, row.nonce, row.type, row.v)
    return any(numbers) or any(
        any(field or b"") for field in (row.from_address, row.to_address, row.input)
    )


def _withdrawals(ledger: Ledger, data: BlockData, profile: Profile) -> None:
    expected, rows = data.block.withdrawals_root, data.withdrawals
    if expected is None:
        raise ledger.inconsistent("has withdrawals, but no root of them")
    if not rows and profile.storage_withdrawals and expected != EMPTY_ROOT:
        raise Unprovable("its withdrawalsRoot is that of a contract's storage")
    ledger.of_block(rows, "withdrawal")
    root = ordered_root([_encode_withdrawal(row) for row in rows])
    ledger.compare(Commitment.WITHDRAWALS, expected, root, "withdrawals root")


def _encode_withdrawal(row: WithdrawalRow) -> bytes:
    """Encode a withdrawal. Source: EIP-4895."""
    if row.validator_index is None or row.address is None or row.amount is None:
        raise Unprovable(f"the node gives not all of withdrawal {row.withdrawal_index}")
    return array(
        b"".join(
            (
                fresh_number(row.withdrawal_index),
                fresh_number(row.validator_index),
                text(row.address),
                fresh_number(row.amount),
            )
        )
    )
