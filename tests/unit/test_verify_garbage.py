"""Whatever stands in a row, proving it ends in a proof or in a named error."""

from __future__ import annotations

import json
from datetime import UTC
from functools import cache, partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.chain.verify import Commitment, Profile, prove_block, prove_events
from indexer.chain.verify.profiles import OP_STACK, POLYGON, UNKNOWN
from indexer.errors import ChainDataError
from indexer.rows import BlockData, BlockEvents
from tests.support import proving
from tests.support.fixtures import needs_fixtures

pytestmark = needs_fixtures

_FILES = (
    "ethereum/1000000/block.json",
    "optimism/bedrock_goerli_5003318/block.json",
    "polygon/19594674/block.json",
)


@cache
def blocks() -> list[tuple[BlockData, BlockEvents]]:
    found = [proving.block_rows(file) for file in _FILES]
    return [(data, proving.event_rows(data.block)) for data in found]


_PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
_HEX = st.binary(max_size=40).map(lambda data: "0x" + data.hex())
_JSON = st.recursive(
    _PLAIN | _HEX,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
# What the encodings look for, holding what it should not.
_EXTRA = st.dictionaries(
    st.sampled_from(
        [
            *("step", "signature", "sealFields", "timestamp", "slotNumber"),
            *("blockAccessListHash", "extDataHash", "blockGasCost", "sourceHash"),
            *("mint", "isSystemTx", "feeCurrency", "depositNonce"),
            "depositReceiptVersion",
        ]
    ),
    _JSON,
)
_LIST = st.lists(
    st.dictionaries(
        st.sampled_from(
            [
                *("address", "storageKeys", "chainId", "nonce", "yParity"),
                *("v", "r", "s"),
            ]
        ),
        _JSON,
    ),
    max_size=2,
)
_NUMBER = st.integers(-(2**70), 2**300) | st.sampled_from([0, 1, 0x7E])
_BYTES = st.binary(max_size=300)
_TIMES = st.datetimes(timezones=st.just(UTC)) | st.none()


def value_for(row: Any, name: str) -> st.SearchStrategy[Any]:
    """Return values that the field's type allows, whether they make sense or not."""
    if name == "extra":
        return (_EXTRA | _JSON).map(json.dumps) | st.none()
    if name in ("access_list", "authorization_list"):
        return (_LIST | _JSON).map(json.dumps) | st.none()
    if name in ("uncles", "blob_versioned_hashes"):
        return st.none() | st.lists(st.binary(max_size=33), max_size=2).map(tuple)
    if name == "timestamp":
        return _TIMES
    kinds = {"bytes": _BYTES, "int": _NUMBER}
    return {
        **kinds,
        **{f"{kind} | None": st.none() | values for kind, values in kinds.items()},
    }[_annotation(row, name)]


def _annotation(row: Any, name: str) -> str:
    written = type(row).__annotations__[name]
    return str(getattr(written, "__forward_arg__", written))


def with_garbage(draw: st.DrawFn, row: Any) -> Any:
    names = draw(st.lists(st.sampled_from(row._fields), max_size=4, unique=True))
    return row._replace(**{name: draw(value_for(row, name)) for name in names})


@st.composite
def garbage(draw: st.DrawFn) -> tuple[BlockData, BlockEvents, Profile]:
    data, events = draw(st.sampled_from(blocks()))
    block = with_garbage(draw, data.block)
    kinds = [None, 0, 1, 2, 3, 4, 0x6A, 0x7B, 0x7E]
    data = data._replace(
        block=block._replace(number=data.block.number),
        transactions=[
            with_garbage(draw, row._replace(type=draw(st.sampled_from(kinds))))
            for row in data.transactions
        ],
    )
    events = events._replace(
        hash=data.block.hash,
        receipts=[with_garbage(draw, row) for row in events.receipts],
        logs=[with_garbage(draw, row) for row in events.logs],
    )
    # One proof at a time: the first that fails would hide what the others do.
    proves = frozenset({draw(st.sampled_from(Commitment))})
    profile = draw(st.sampled_from([UNKNOWN, OP_STACK, POLYGON]))
    return data, events, profile._replace(proves=proves)


@given(garbage())
@settings(max_examples=200, deadline=None)
def test_c3_no_row_makes_a_proof_crash(
    case: tuple[BlockData, BlockEvents, Profile],
) -> None:
    data, events, profile = case
    for attempt in (
        partial(prove_block, data, profile),
        partial(prove_events, data.block, events, profile),
    ):
        try:
            attempt()
        except ChainDataError as error:
            assert str(data.block.number) in str(error)
