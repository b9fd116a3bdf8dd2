"""Raw JSON-RPC results in, rows out: pure, and the only parser of hex.

- ``kinds``: quantities, data, lists and JSON, by the piece and by the column
- ``extras``: JSON text for the fields no column takes
- ``levels``: structs that learn a chain's own fields
- ``objects``: the fields of blocks, transactions, withdrawals, receipts, logs
- ``repeats``: fields that only repeat another object's, verified
- ``blocks``, ``receipts``: the functions that make rows
- ``together``: the same for many blocks at once
"""

from __future__ import annotations

from indexer.chain.decode.blocks import (
    decode_block,
    decode_header,
    decode_quantity,
    is_null,
)
from indexer.chain.decode.receipts import decode_block_receipts
from indexer.chain.decode.together import decode_blocks, decode_many_receipts

__all__ = [
    "decode_block",
    "decode_block_receipts",
    "decode_blocks",
    "decode_header",
    "decode_many_receipts",
    "decode_quantity",
    "is_null",
]
