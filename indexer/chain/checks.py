"""What must hold before a block or its events may be stored (C1, C2, C4); pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from indexer.errors import InconsistentResponse, WithheldData
from indexer.rows import BlockData, BlockEvents, BlockRef, ReceiptRow

# keccak256(rlp("")): the root of a trie without entries.
EMPTY_ROOT: Final = bytes.fromhex(
    "56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"
)
_NO_ROOT: Final = bytes(32)
_EMPTY_BLOOM: Final = bytes(256)


def check_block(data: BlockData) -> None:
    """Check that the transactions are numbered 0, 1, 2, …"""
    number = data.block.number
    for position, row in enumerate(data.transactions):
        if row.transaction_index != position:
            raise InconsistentResponse(
                f"block {number} has {len(data.transactions)} transactions, but none "
                f"with index {position}",
                block_number=number,
            )


def check_links(blocks: Sequence[BlockData]) -> None:
    """Check that each block names the one before it as its parent, if it is (C1)."""
    for lower, upper in pairwise(blocks):
        check_link(lower, upper)


def check_link(lower: BlockData, upper: BlockData) -> None:
    """Check that a block names the one before it as its parent, if it is (C1)."""
    below, above = lower.block, upper.block
    if below.number + 1 == above.number and above.parent_hash != below.hash:
        raise InconsistentResponse(
            f"block {above.number} has the parent 0x{above.parent_hash.hex()}, "
            f"but the node gives 0x{below.hash.hex()} for block {below.number}",
            block_number=above.number,
        )


def _has_bits(bloom: bytes | None) -> bool:
    return bloom is not None and bloom != _EMPTY_BLOOM


def may_have_logs(ref: BlockRef) -> bool:
    """Tell whether the header's bloom has any bit set."""
    return _has_bits(ref.logs_bloom)


def missing_receipts(ref: BlockRef, events: BlockEvents) -> list[int]:
    """Return the indexes of transactions that have no receipt."""
    present = {row.transaction_index for row in events.receipts}
    return [
        index for index in range(len(ref.transaction_hashes)) if index not in present
    ]


def check_events(ref: BlockRef, events: BlockEvents) -> None:
    """Check receipts and logs against the block's transactions and header."""
    for row in events.receipts:
        _check_receipt(ref, row)
    missing = missing_receipts(ref, events)
    if missing and ref.receipts_root != EMPTY_ROOT:
        raise WithheldData(
            f"block {ref.number} has {len(ref.transaction_hashes)} transactions, but "
            f"the node gives no receipt for {len(missing)} of them, the first with "
            f"index {missing[0]}",
            block_number=ref.number,
        )
    _check_bloom(ref, events)


def _check_receipt(ref: BlockRef, row: ReceiptRow) -> None:
    index = row.transaction_index
    if index >= len(ref.transaction_hashes):
        raise InconsistentResponse(
            f"block {ref.number} has {len(ref.transaction_hashes)} transactions, but "
            f"the node gives a receipt with index {index}",
            block_number=ref.number,
        )
    if row.transaction_hash != ref.transaction_hashes[index]:
        raise InconsistentResponse(
            f"block {ref.number}: receipt {index} is of transaction "
            f"0x{row.transaction_hash.hex()}, the block's is "
            f"0x{ref.transaction_hashes[index].hex()}",
            block_number=ref.number,
        )


def _check_bloom(ref: BlockRef, events: BlockEvents) -> None:
    """Check that there are logs where a bloom says so, and none if it says not."""
    with_logs = {log.transaction_index for log in events.logs}
    for row in events.receipts:
        if _has_bits(row.logs_bloom) and row.transaction_index not in with_logs:
            raise WithheldData(
                f"block {ref.number}: receipt {row.transaction_index} has logs by its "
                "bloom, but the node gives none",
                block_number=ref.number,
            )
    if ref.logs_bloom is None:
        return
    if _has_bits(ref.logs_bloom):
        if not events.logs:
            raise WithheldData(
                f"block {ref.number} has logs by its header's bloom, but the node "
                "gives none",
                block_number=ref.number,
            )
        return
    # Some chains leave every root and the bloom empty, so the header says nothing;
    # and what a chain adds by itself, at no gas (Polygon's state sync), is in no
    # bloom.
    if ref.receipts_root is None or ref.receipts_root == _NO_ROOT:
        return
    added = {row.transaction_index for row in events.receipts if row.gas_used == 0}
    if not with_logs <= added:
        raise InconsistentResponse(
            f"block {ref.number} has no logs by its header's bloom, but the node gives "
            f"{len(events.logs)}",
            block_number=ref.number,
        )
