"""Prove a block's receipts and logs: the receipts root and every bloom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import chain, repeat
from operator import itemgetter, or_
from typing import Final, NamedTuple, Protocol, TypeVar

from indexer.chain.verify.bloom import EMPTY_BLOOM, bloom, log_masks
from indexer.chain.verify.profiles import Commitment, Profile
from indexer.chain.verify.proof import Ledger, Proof
from indexer.chain.verify.receipts import encode_logs, encode_receipt
from indexer.chain.verify.statesync import Named, is_state_sync
from indexer.chain.verify.trie import ordered_root
from indexer.chain.verify.unprovable import Unprovable
from indexer.rows import BlockEvents, LogRow, ReceiptRow

T = TypeVar("T")

# By position, at half the cost of by name.
_RECEIPT_HASH: Final = itemgetter(ReceiptRow._fields.index("transaction_hash"))
_LOG_HASH: Final = itemgetter(LogRow._fields.index("transaction_hash"))
_LOG_OWNER: Final = itemgetter(LogRow._fields.index("transaction_index"))


class Committed(Named, Protocol):
    """What is known of a block whose events are proven: a BlockRow or a BlockRef."""

    @property
    def receipts_root(self) -> bytes | None:
        """Return the root of the receipts that its header has."""

    @property
    def logs_bloom(self) -> bytes | None:
        """Return the bloom that its header has."""


class _Events(NamedTuple):
    """Receipts with as many ``logs`` as ``counts`` says of each, one after another.

    ``masks`` are the bloom bits of the logs of each receipt, as numbers.
    """

    receipts: Sequence[ReceiptRow]
    counts: Sequence[int]
    logs: Sequence[LogRow]
    masks: Sequence[int]


_NOTHING: Final = _Events((), (), (), ())


def prove_events(block: Committed, events: BlockEvents, profile: Profile) -> Proof:
    """Prove receipts and logs, which are in index order, against their header.

    Raises ProofFailed where they are not what the block commits to, and
    InconsistentResponse where they cannot be any block's.
    """
    ledger = Ledger(block.number, profile)
    if events.hash != block.hash:
        raise ledger.inconsistent(
            f"has the hash 0x{block.hash.hex()}, but its receipts are those of "
            f"0x{events.hash.hex()}"
        )
    if not profile.proves.isdisjoint((Commitment.RECEIPTS, Commitment.BLOOM)):
        events, synced = _without_state_sync(block, events, profile)
        whole = _ordered(ledger, events)
    ledger.prove(
        Commitment.RECEIPTS,
        lambda: _receipts(ledger, block, whole, profile, synced=synced),
    )
    ledger.prove(Commitment.BLOOM, lambda: _blooms(ledger, block, whole, profile))
    return ledger.proof()


def _without_state_sync(
    block: Committed, events: BlockEvents, profile: Profile
) -> tuple[BlockEvents, bool]:
    """Leave out what no root covers; say whether there was any."""
    receipts = events.receipts
    if not profile.state_sync or not receipts:
        return events, False
    *others, last = receipts
    if not is_state_sync(last.transaction_hash, block):
        return events, False
    index = last.transaction_index
    logs = [log for log in events.logs if log.transaction_index != index]
    return events._replace(receipts=others, logs=logs), True


def _ordered(ledger: Ledger, events: BlockEvents) -> _Events:
    """Check that rows are in order, and that each log is of its transaction."""
    receipts, logs = events.receipts, events.logs
    if not receipts and not logs:
        return _NOTHING
    ledger.in_place(receipts, "receipt")
    ledger.in_place(logs, "log")
    owners = list(map(_LOG_OWNER, logs))
    found = Counter(owners)
    counts = [found.get(index, 0) for index in range(len(receipts))]
    if sum(counts) != len(logs):
        raise ledger.inconsistent("has a log of a transaction without a receipt")
    if owners != list(chain.from_iterable(map(repeat, range(len(counts)), counts))):
        raise ledger.inconsistent("has logs in another order than their transactions")
    hashes = chain.from_iterable(map(repeat, map(_RECEIPT_HASH, receipts), counts))
    if list(map(_LOG_HASH, logs)) != list(hashes):
        raise ledger.inconsistent("has a log that names another transaction's hash")
    masks = log_masks(logs)
    joined = [reduce(or_, part, 0) for part in _parts(masks, counts)]
    return _Events(receipts, counts, logs, joined)


def _parts(items: Sequence[T], counts: Sequence[int]) -> Iterator[Sequence[T]]:
    """Cut items into consecutive parts of the lengths given."""
    last = 0
    for count in counts:
        first, last = last, last + count
        yield items[first:last]


def _receipts(
    ledger: Ledger,
    block: Committed,
    events: _Events,
    profile: Profile,
    *,
    synced: bool,
) -> None:
    if block.number < profile.receipts_from:
        raise Unprovable(
            f"below block {profile.receipts_from} the chain made its receipts root in "
            "another way"
        )
    receipts = events.receipts
    if block.number < profile.statuses_from and not all(row.root for row in receipts):
        raise Unprovable(
            "receipts from before Byzantium hold a state root, which the node does "
            "not give"
        )
    parts = _parts(encode_logs(events.logs), events.counts)
    encoded = [
        encode_receipt(row, row.logs_bloom or bloom(mask), logs)
        for row, mask, logs in zip(receipts, events.masks, parts, strict=True)
    ]
    root, what = ordered_root(encoded), "receipts root"
    if root != block.receipts_root:
        _blame_unknown_types(receipts, profile)
    ledger.compare(Commitment.RECEIPTS, block.receipts_root, root, what)
    _check_gas(ledger, receipts)
    if synced:
        raise Unprovable("the state-sync transaction's receipt and logs are in no root")


def _check_gas(ledger: Ledger, receipts: Sequence[ReceiptRow]) -> None:
    """Hold each receipt's gas, which no root covers, against what the root does."""
    before = 0
    for row in receipts:
        after = row.cumulative_gas_used or 0
        if row.gas_used != after - before:
            raise ledger.inconsistent(
                f"has a receipt {row.transaction_index} whose gasUsed is "
                f"{row.gas_used}, but by cumulativeGasUsed it is {after - before}"
            )
        before = after


def _blooms(
    ledger: Ledger, block: Committed, events: _Events, profile: Profile
) -> None:
    for row, mask in zip(events.receipts, events.masks, strict=True):
        given = row.logs_bloom
        if given is not None and given != (bloom(mask) if mask else EMPTY_BLOOM):
            what = f"bloom of receipt {row.transaction_index}"
            ledger.compare(Commitment.BLOOM, bloom(mask), given, what)
    whole = bloom(reduce(or_, events.masks, 0))
    if whole != block.logs_bloom:
        _blame_unknown_types(events.receipts, profile)
    ledger.compare(Commitment.BLOOM, block.logs_bloom, whole, "logs bloom")


def _blame_unknown_types(receipts: Sequence[ReceiptRow], profile: Profile) -> None:
    """Raise Unprovable for a receipt that may be made in a way of its own."""
    for row in receipts:
        if row.type not in profile.receipt_types:
            raise Unprovable(
                f"receipt {row.transaction_index}: the encoding of type "
                f"{row.type:#x} is not known"
            )
