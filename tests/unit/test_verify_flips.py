"""One flipped bit in anything a root covers is caught, and so is any other row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.chain.verify import (
    Commitment,
    Profile,
    Proof,
    profile_of,
    prove_block,
    prove_events,
)
from indexer.errors import ChainDataError
from indexer.rows import (
    BlockData,
    BlockEvents,
    BlockRow,
    LogRow,
    ReceiptRow,
    TransactionRow,
    WithdrawalRow,
)
from tests.support import proving
from tests.support.fixtures import needs_fixtures
from tests.support.rlpchain import rlp_chain

pytestmark = needs_fixtures

# Blocks of all forks and types, and of three kinds of chain, by chain id.
_RECORDED = {
    "arbitrum/150000000/block.json": 42_161,
    "ethereum/1000000/block.json": 1,
    "ethereum/18000000/block.json": 1,
    "goerli/block_8656414_post_shanghai.json": 5,
    "mainnet/block_19537146_cancun_blobs.json": 1,
    "optimism/bedrock_goerli_5003318/block.json": 420,
    "polygon/19594674/block.json": 137,
    "ropsten/468179/block.json": 3,
}


class Sample(NamedTuple):
    data: BlockData
    events: BlockEvents | None
    profile: Profile


def _known(chain_id: int) -> Profile:
    profile = profile_of(chain_id)
    assert profile is not None
    return profile


@cache
def samples() -> list[Sample]:
    found = [Sample(data, None, _known(1)) for data in rlp_chain()]
    for file, chain_id in _RECORDED.items():
        data = proving.block_rows(file)
        events = None
        if proving.recorded_receipts(data.block.hash):
            events = proving.event_rows(data.block)
        found.append(Sample(data, events, _known(chain_id)))
    return found


# The fields that a header's hash covers are in it whenever they are there.
_HEADER = (
    *("number", "hash", "parent_hash", "timestamp", "miner", "gas_limit", "gas_used"),
    *("base_fee_per_gas", "difficulty", "nonce", "mix_hash", "sha3_uncles"),
    *("logs_bloom", "transactions_root", "state_root", "receipts_root"),
    *("withdrawals_root", "parent_beacon_block_root", "requests_hash"),
    *("blob_gas_used", "excess_blob_gas", "extra_data"),
)
_CALL = ("hash", "transaction_index", "block_number", "gas", "to_address", "value")
_SIGNED = (*_CALL, "nonce", "input", "v", "r", "s")
_TYPED = (*_SIGNED, "chain_id", "y_parity", "access_list")
_FEES = ("max_fee_per_gas", "max_priority_fee_per_gas")
_TRANSACTION = {
    None: (*_SIGNED, "gas_price"),
    0: (*_SIGNED, "gas_price"),
    1: (*_TYPED, "gas_price"),
    2: (*_TYPED, *_FEES),
    3: (*_TYPED, *_FEES, "max_fee_per_blob_gas", "blob_versioned_hashes"),
    4: (*_TYPED, *_FEES, "authorization_list"),
    0x6A: ("hash", "transaction_index", "block_number", "chain_id", "input"),
    0x7E: (*_CALL, "from_address", "input"),
}
_WITHDRAWAL = (
    *("block_number", "withdrawal_index", "validator_index", "address", "amount"),
)
_RECEIPT = (
    *("block_number", "transaction_index", "cumulative_gas_used", "gas_used"),
    "logs_bloom",
)
_LOG = (
    *("block_number", "log_index", "transaction_index", "transaction_hash", "address"),
    *("topic0", "topic1", "topic2", "topic3", "data"),
)


_HEX = re.compile(r'"0x([0-9a-f]+)"')
_BIT = st.sampled_from([1, 2, 4, 8])
_SECONDS = st.sampled_from([1, -1, 2, 256, -65_536])


def flipped(draw: st.DrawFn, value: Any) -> Any:
    """Return a value with one bit flipped; of JSON text, in one of its hex digits."""
    if isinstance(value, bytes):
        at = draw(st.integers(0, 8 * len(value) - 1))
        changed = int.from_bytes(value, "big") ^ 1 << at
        return changed.to_bytes(len(value), "big")
    if isinstance(value, int):
        return value ^ 1 << draw(st.integers(0, max(value.bit_length(), 8) - 1))
    if isinstance(value, tuple):
        at = draw(st.integers(0, len(value) - 1))
        return (*value[:at], flipped(draw, value[at]), *value[at + 1 :])
    if isinstance(value, str):
        spans = [match.span(1) for match in _HEX.finditer(value)]
        at = draw(
            st.sampled_from([i for first, last in spans for i in (first, last - 1)])
        )
        return f"{value[:at]}{int(value[at], 16) ^ draw(_BIT):x}{value[at + 1 :]}"
    return value + timedelta(seconds=draw(_SECONDS))


def with_flip(draw: st.DrawFn, row: Any, covered: Iterable[str]) -> Any:
    """Return a row with one bit flipped in one of the fields it has."""
    names = [
        name for name in covered if getattr(row, name) not in (None, b"", (), "[]")
    ]
    name = draw(st.sampled_from(names))
    return row._replace(**{name: flipped(draw, getattr(row, name))})


def in_place(draw: st.DrawFn, rows: list[Any], covered: Callable[[Any], Any]) -> Any:
    """Return rows of which one has a bit flipped."""
    at = draw(st.integers(0, len(rows) - 1))
    return [*rows[:at], with_flip(draw, rows[at], covered(rows[at])), *rows[at + 1 :]]


def covered_receipt(row: ReceiptRow) -> tuple[str, ...]:
    return (*_RECEIPT, "root" if row.root else "status")


# What no root covers: told by a node and by nobody else, or made of what is covered.
_UNCOVERED: dict[type[tuple[Any, ...]], set[str]] = {
    BlockRow: {"size", "total_difficulty", "uncles", "extra"},
    # Another type is another encoding: a test of its own.
    TransactionRow: {"type", "extra"},
    WithdrawalRow: {"extra"},
    ReceiptRow: {
        *("transaction_hash", "from_address", "to_address", "contract_address"),
        *("type", "effective_gas_price", "blob_gas_used"),
        *("blob_gas_price", "extra"),
    },
    LogRow: {"extra"},
}


Altered = tuple[BlockData, BlockEvents | None, Profile]


@st.composite
def altered_blocks(draw: st.DrawFn) -> Altered:
    data, _, profile = draw(st.sampled_from(samples()))
    parts = ["block"]
    parts += ["transactions"] if data.transactions else []
    parts += ["withdrawals"] if data.withdrawals else []
    part = draw(st.sampled_from(parts))
    if part == "block":
        return data._replace(block=with_flip(draw, data.block, _HEADER)), None, profile
    if part == "transactions":
        rows = in_place(draw, data.transactions, lambda row: _TRANSACTION[row.type])
        return data._replace(transactions=rows), None, profile
    rows = in_place(draw, data.withdrawals, lambda _: _WITHDRAWAL)
    return data._replace(withdrawals=rows), None, profile


@st.composite
def altered_events(draw: st.DrawFn) -> Altered:
    whole = [sample for sample in samples() if sample.events is not None]
    data, events, profile = draw(st.sampled_from(whole))
    assert events is not None
    if draw(st.booleans()) and events.logs:
        rows = in_place(draw, events.logs, lambda _: _LOG)
        return data, events._replace(logs=rows), profile
    rows = in_place(draw, events.receipts, covered_receipt)
    return data, events._replace(receipts=rows), profile


def prove(altered: Altered) -> None:
    data, events, profile = altered
    if events is None:
        prove_block(data, profile)
    else:
        prove_events(data.block, events, profile)


def parts_of(sample: Sample) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Yield each row of a block, its kind before it, and what is covered behind."""
    data, events, _ = sample
    yield "blocks", data.block, _HEADER
    for sent in data.transactions:
        yield f"transactions {sent.type}", sent, _TRANSACTION[sent.type]
    for paid in data.withdrawals:
        yield "withdrawals", paid, _WITHDRAWAL
    if events is None:
        return
    for receipt in events.receipts:
        yield f"receipts {receipt.root is None}", receipt, covered_receipt(receipt)
    for log in events.logs:
        yield "logs", log, _LOG


def with_row(sample: Sample, kind: str, old: Any, new: Any) -> Altered:
    """Return a block with one row replaced."""
    data, events, profile = sample
    name = kind.split()[0]
    if name == "blocks":
        return data._replace(block=new), None, profile
    held: Any = data if name in ("transactions", "withdrawals") else events
    rows = [new if row is old else row for row in getattr(held, name)]
    changed = held._replace(**{name: rows})
    return (changed, None, profile) if held is data else (data, changed, profile)


def every_flip() -> dict[tuple[str, str], Altered]:
    """Return, of each field of each kind of row, a flip in the first that has it."""
    found: dict[tuple[str, str], Altered] = {}
    for sample in samples():
        for kind, row, names in parts_of(sample):
            for name in names:
                value = getattr(row, name)
                if (kind, name) in found or value in (None, b"", (), "[]"):
                    continue
                new = row._replace(**{name: last_bit_flipped(value)})
                found[kind, name] = with_row(sample, kind, row, new)
    return found


def last_bit_flipped(value: Any) -> Any:
    """Return a value with its last bit flipped; of JSON text, of its last digit."""
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 1])
    if isinstance(value, int):
        return value ^ 1
    if isinstance(value, tuple):
        return (*value[:-1], last_bit_flipped(value[-1]))
    if isinstance(value, str):
        at = [match.end(1) - 1 for match in _HEX.finditer(value)][-1]
        return f"{value[:at]}{int(value[at], 16) ^ 1:x}{value[at + 1 :]}"
    return value + timedelta(seconds=1)


def test_c3_a_flipped_bit_in_each_field_that_a_root_covers_is_caught() -> None:
    flips = every_flip()
    for (kind, name), altered in flips.items():
        with pytest.raises(ChainDataError):
            prove(altered)
            pytest.fail(f"{name} of {kind} was altered, and proven")
    # Of each column it is known whether a root covers it.
    for row, tables in (
        (BlockRow, "blocks"),
        (TransactionRow, "transactions"),
        (WithdrawalRow, "withdrawals"),
        (ReceiptRow, "receipts"),
        (LogRow, "logs"),
    ):
        covered = {name for kind, name in flips if kind.split()[0] == tables}
        assert covered == set(row._fields) - _UNCOVERED[row]
    assert {name for kind, name in flips if kind == "receipts False"} >= {"root"}


@given(altered_blocks())
@settings(max_examples=1000, deadline=None)
def test_c3_a_flipped_bit_in_a_header_transaction_or_withdrawal_is_caught(
    altered: Altered,
) -> None:
    with pytest.raises(ChainDataError):
        prove(altered)


@given(altered_events())
@settings(max_examples=400, deadline=None)
def test_c3_a_flipped_bit_in_a_receipt_or_log_is_caught(altered: Altered) -> None:
    with pytest.raises(ChainDataError):
        prove(altered)


@pytest.mark.parametrize("gas", [None, 1, 10**9])
def test_c3_the_gas_of_a_receipt_is_what_its_root_makes_it(gas: int | None) -> None:
    sample = next(each for each in samples() if each.events and each.events.receipts)
    assert sample.events is not None
    first, *others = sample.events.receipts
    other = sample.events._replace(receipts=[first._replace(gas_used=gas), *others])
    with pytest.raises(ChainDataError, match="whose gasUsed is"):
        prove_events(sample.data.block, other, sample.profile)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_c3_another_type_is_never_called_proven(drawn: st.DataObject) -> None:
    data, events, profile = drawn.draw(
        st.sampled_from([sample for sample in samples() if sample.data.transactions])
    )
    kinds = st.one_of(st.none(), st.integers(0, 300))
    at = drawn.draw(st.integers(0, len(data.transactions) - 1))
    was = data.transactions[at].type or 0
    kind = drawn.draw(kinds.filter(lambda kind: (kind or 0) != was))
    rows = list(data.transactions)
    rows[at] = rows[at]._replace(type=kind)
    assert Commitment.TRANSACTIONS not in _proven(
        lambda: prove_block(data._replace(transactions=rows), profile)
    )
    if events is not None:
        receipts = list(events.receipts)
        receipts[at] = receipts[at]._replace(type=kind)
        assert Commitment.RECEIPTS not in _proven(
            lambda: prove_events(
                data.block, events._replace(receipts=receipts), profile
            )
        )


def _proven(attempt: Callable[[], Proof]) -> frozenset[Commitment]:
    try:
        return attempt().proven
    except ChainDataError:
        return frozenset()


def without(rows: list[Any], at: int) -> list[Any]:
    return rows[:at] + rows[at + 1 :]


def twice(rows: list[Any], at: int) -> list[Any]:
    return rows[: at + 1] + rows[at:]


def swapped(rows: list[Any], at: int) -> list[Any]:
    return rows[:at] + rows[at : at + 2][::-1] + rows[at + 2 :]


def renumbered(rows: list[Any]) -> list[Any]:
    """Return rows numbered by their place, as a fault that hides itself would."""
    name = rows[0]._fields[1] if rows else ""
    return [row._replace(**{name: place}) for place, row in enumerate(rows)]


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("change", [without, twice, swapped])
def test_c3_missing_doubled_and_swapped_rows_are_caught(
    change: Callable[[list[Any], int], list[Any]], hidden: bool
) -> None:
    again = renumbered if hidden else list
    for data, events, profile in samples():
        for at in (0, len(data.transactions) - 2):
            if at >= 0 and len(data.transactions) > 1:
                rows = again(change(data.transactions, at))
                with pytest.raises(ChainDataError):
                    prove_block(data._replace(transactions=rows), profile)
        if len(data.withdrawals) > 1:
            changed = change(data.withdrawals, 0)
            with pytest.raises(ChainDataError):
                prove_block(data._replace(withdrawals=changed), profile)
        if events is None or len(events.logs) < 2:
            continue
        for at in (0, len(events.logs) - 2):
            rows = again(change(events.logs, at))
            with pytest.raises(ChainDataError):
                prove_events(data.block, events._replace(logs=rows), profile)
        rows = again(change(events.receipts, 0))
        with pytest.raises(ChainDataError):
            prove_events(data.block, events._replace(receipts=rows), profile)


def test_the_samples_have_every_field_that_is_flipped() -> None:
    data = [sample.data for sample in samples()]
    kinds = {row.type for block in data for row in block.transactions}
    assert kinds == set(_TRANSACTION)
    for name in _HEADER:
        assert any(getattr(block.block, name) is not None for block in data)
    for kind, names in _TRANSACTION.items():
        rows = [r for block in data for r in block.transactions if r.type == kind]
        for name in names:
            # A gas, a value or a list may be nothing in all that were recorded.
            assert any(getattr(row, name) is not None for row in rows), (kind, name)
    assert any(row.root for s in samples() if s.events for row in s.events.receipts)
