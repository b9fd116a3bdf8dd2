"""Transactions that other chains have added, as far as recorded ones prove them.

Sources: OP stack specification, "deposits"; Arbitrum Nitro's ArbitrumInternalTx;
CIP-64 of Celo.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from indexer.chain.verify.extra import data, fields_of, quantity
from indexer.chain.verify.rlp import EMPTY, NUMBERS, array, text
from indexer.chain.verify.transactions import Encoder, Whole, dynamic_fee_fields, typed


def deposit(row: Whole) -> bytes:
    """Encode a transaction that the OP stack's first layer has ordered (0x7e).

    A node leaves ``mint`` and ``isSystemTx`` out, or null, where they are nothing.
    """
    fields = fields_of(row.extra)
    mint = 0 if fields.get("mint") is None else quantity(fields, "mint")
    return b"\x7e" + array(
        b"".join(
            (
                text(data(fields, "sourceHash")),
                text(row.from_address),
                EMPTY if row.to_address is None else text(row.to_address),
                NUMBERS[mint],
                NUMBERS[row.value],
                NUMBERS[row.gas],
                NUMBERS[1 if fields.get("isSystemTx") is True else 0],
                text(row.input),
            )
        )
    )


def arbitrum_internal(row: Whole) -> bytes:
    """Encode a transaction by which ArbOS starts a block (0x6a)."""
    return b"\x6a" + array(NUMBERS[row.chain_id] + text(row.input))


def fee_currency(row: Whole) -> bytes:
    """Encode a transaction whose fee is paid in a token (0x7b, Celo)."""
    currency = text(data(fields_of(row.extra), "feeCurrency"))
    return typed(row, b"\x7b", (*dynamic_fee_fields(row), currency))


OP_STACK: Final[Mapping[int | None, Encoder]] = {0x7E: deposit}
ARBITRUM: Final[Mapping[int | None, Encoder]] = {0x6A: arbitrum_internal}
CELO: Final[Mapping[int | None, Encoder]] = {0x7B: fee_currency}
