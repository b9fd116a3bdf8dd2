"""The fields of every object, in the column order of :mod:`indexer.rows`."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Raw, UnsetType

from indexer.chain.decode.kinds import (
    ABSENT,
    BIGINT,
    INTEGER,
    NUMERIC_20,
    SMALLINT,
    UINT256,
    Data,
    HashList,
    JsonText,
    Quantity,
    Remembered,
)
from indexer.chain.decode.levels import (
    REQUIRED,
    Field,
    Level,
    Other,
)

HASH: Final = Data(32)
ADDRESS: Final = Remembered(Data(20))
TOPIC: Final = Remembered(HASH)
BLOOM: Final = Data(256)
DATA: Final = Data()
BLOCK_NONCE: Final = Data(8)
# geth's marshaller writes "0x" for the root of a receipt that has a status.
RECEIPT_ROOT: Final = Data(0, 32)
UINT256_QUANTITY: Final = Quantity(UINT256)
UINT64_QUANTITY: Final = Quantity(NUMERIC_20)
BIG: Final = Quantity(BIGINT)
INT: Final = Remembered(Quantity(INTEGER))
SMALL: Final = Remembered(Quantity(SMALLINT))
# Chain ids, and the v of signatures, which holds one.
FEW: Final = Remembered(UINT256_QUANTITY)

_TEXT: Final[Any] = str | UnsetType | None
_TIME: Final[Any] = str | int | UnsetType | None

WITHDRAWAL: Final = Level(
    [
        Field("index", BIG, required=True),
        Field("validatorIndex", BIG),
        Field("address", ADDRESS),
        Field("amount", UINT64_QUANTITY),
    ],
    others={},
)

TRANSACTION: Final = Level(
    [
        Field("transactionIndex", INT, required=True),
        Field("hash", HASH, required=True),
        Field("from", ADDRESS),
        Field("to", ADDRESS),
        Field("type", INT),
        Field("nonce", UINT64_QUANTITY),
        Field("value", UINT256_QUANTITY),
        Field("gas", BIG),
        Field("gasPrice", UINT256_QUANTITY),
        Field("maxFeePerGas", UINT256_QUANTITY),
        Field("maxPriorityFeePerGas", UINT256_QUANTITY),
        Field("maxFeePerBlobGas", UINT256_QUANTITY),
        Field("chainId", FEW),
        Field("v", FEW),
        Field("r", UINT256_QUANTITY),
        Field("s", UINT256_QUANTITY),
        Field("yParity", INT),
        Field("input", DATA),
        Field("blobVersionedHashes", HashList()),
        Field("accessList", JsonText()),
        Field("authorizationList", JsonText()),
    ],
    others={
        "blockHash": Other(_TEXT),
        "blockNumber": Other(_TEXT),
        "blockTimestamp": Other(_TIME),
    },
)

# timestamp stands among the columns as a number; it becomes a time afterwards.
_HEADER: Final = [
    Field("number", BIG, required=True),
    Field("hash", HASH, required=True),
    Field("parentHash", HASH, required=True),
    Field("timestamp", UINT256_QUANTITY),
    Field("miner", ADDRESS),
    Field("gasLimit", UINT64_QUANTITY),
    Field("gasUsed", BIG),
    Field("baseFeePerGas", UINT256_QUANTITY),
    Field("size", BIG),
    Field("difficulty", UINT256_QUANTITY),
    Field("totalDifficulty", UINT256_QUANTITY),
    Field("nonce", BLOCK_NONCE),
    Field("mixHash", HASH),
    Field("sha3Uncles", HASH),
    Field("logsBloom", BLOOM),
    Field("transactionsRoot", HASH),
    Field("stateRoot", HASH),
    Field("receiptsRoot", HASH),
    Field("withdrawalsRoot", HASH),
    Field("parentBeaconBlockRoot", HASH),
    Field("requestsHash", HASH),
    Field("blobGasUsed", BIG),
    Field("excessBlobGas", BIG),
    Field("extraData", DATA),
    Field("uncles", HashList()),
]

BLOCK: Final = Level(
    _HEADER,
    others={},
    lists={"transactions": (TRANSACTION, True), "withdrawals": (WITHDRAWAL, False)},
)

# A block asked for without its transactions: hashes, or nothing at all.
HEADER: Final = Level(
    _HEADER,
    others={"transactions": Other(Raw, ABSENT), "withdrawals": Other(Raw, ABSENT)},
)

LOG: Final = Level(
    [Field("address", ADDRESS, required=True), Field("data", DATA, required=True)],
    others={
        "topics": Other(
            Annotated[list[str], msgspec.Meta(max_length=4)], default=REQUIRED
        ),
        "logIndex": Other(_TEXT),
        "blockHash": Other(_TEXT),
        "blockNumber": Other(_TEXT),
        "blockTimestamp": Other(_TIME),
        "transactionHash": Other(_TEXT),
        "transactionIndex": Other(_TEXT),
        "removed": Other(bool | UnsetType | None),
    },
)

RECEIPT: Final = Level(
    [
        Field("transactionIndex", INT, required=True),
        Field("transactionHash", HASH, required=True),
        Field("from", ADDRESS),
        Field("to", ADDRESS),
        Field("contractAddress", ADDRESS),
        Field("type", INT),
        Field("status", SMALL),
        Field("root", RECEIPT_ROOT),
        Field("cumulativeGasUsed", BIG),
        Field("gasUsed", BIG),
        Field("effectiveGasPrice", UINT256_QUANTITY),
        Field("blobGasUsed", BIG),
        Field("blobGasPrice", UINT256_QUANTITY),
        Field("logsBloom", BLOOM),
    ],
    others={"blockHash": Other(_TEXT), "blockNumber": Other(_TEXT)},
    lists={"logs": (LOG, True)},
)
