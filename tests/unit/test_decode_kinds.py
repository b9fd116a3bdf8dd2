"""The scalars: a column parses as its values do, and nothing lax passes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.chain.decode.kinds import (
    BIGINT,
    INTEGER,
    NUMERIC_20,
    SMALLINT,
    UINT256,
    BadValue,
    Data,
    HashList,
    Kind,
    Quantity,
    Remembered,
)

QUANTITY = Quantity(UINT256)
HASH = Data(32)
KINDS: dict[str, Kind[str, Any]] = {
    "uint256": QUANTITY,
    "smallint": Quantity(SMALLINT),
    "remembered": Remembered(Quantity(INTEGER)),
    "data": Data(),
    "hash": HASH,
    "root": Data(0, 32),
    "remembered hash": Remembered(HASH),
}

almost_hex = st.text("0x0x0x123abcABCfFgz_ +-\n\uff11", max_size=8)
hashes = st.binary(min_size=32, max_size=32).map(lambda data: "0x" + data.hex())
quantities = st.integers(0, UINT256).map(hex)
texts = st.one_of(almost_hex, almost_hex.map("0x".__add__), hashes, quantities)


def _outcome(kind: Kind[str, Any], column: list[str | None]) -> object:
    try:
        return list(kind.column(column))
    except BadValue as error:
        return error.index


def _one_by_one(kind: Kind[str, Any], column: list[str | None]) -> object:
    values = []
    for index, text in enumerate(column):
        try:
            values.append(None if text is None else kind.one(text))
        except ValueError:
            return index
    return values


@pytest.mark.parametrize("name", KINDS)
@given(column=st.lists(st.one_of(st.none(), texts), max_size=6))
def test_a_column_is_what_its_values_are(name: str, column: list[str | None]) -> None:
    kind = KINDS[name]
    assert _outcome(kind, column) == _one_by_one(kind, column)


@given(column=st.lists(st.one_of(st.none(), quantities), max_size=6))
def test_a_column_of_quantities_is_read_as_numbers(column: list[str | None]) -> None:
    expected = [None if text is None else int(text, 16) for text in column]
    assert QUANTITY.column(column) == expected


@pytest.mark.parametrize(
    "text",
    ["", "0x", "0", "12", "0X1", "0x1g", "0x_1", "0x 1", "0x1 ", " 0x1", "-0x1", "0x-1",
     "+0x1", "0x\uff11", "0x1_0", "0x0x1", "x1", "0x1\n", "0x1\x00"],
)  # fmt: skip
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a 0x-quantity"):
        QUANTITY.one(text)
    for column in ([text], ["0x1", text], [text, "0x1"], [None, "0x10", text]):
        with pytest.raises(BadValue) as caught:
            QUANTITY.column(column)
        assert column[caught.value.index] == text


@pytest.mark.parametrize(
    "text",
    ["", "0", "00", "0x0", "0xabc", "0xgg", "0x 00", "0x00 ", " 0x00", "0X00", "x00",
     "0x0\uff10", "0x00\n", "xA00"],
)  # fmt: skip
def test_what_is_no_data_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Data().one(text)
    for column in ([text], ["0x10", text], [text, "0x10"], [None, "0x10", text]):
        with pytest.raises(BadValue) as caught:
            Data().column(column)
        assert column[caught.value.index] == text


@pytest.mark.parametrize("limit", [SMALLINT, INTEGER, BIGINT, NUMERIC_20, UINT256])
def test_the_largest_number_of_a_column_passes_and_the_next_does_not(
    limit: int,
) -> None:
    kind = Quantity(limit)
    assert kind.column([hex(limit), "0x0"]) == [limit, 0]
    with pytest.raises(BadValue, match=f"larger than {limit}") as caught:
        kind.column(["0x0", hex(limit + 1)])
    assert caught.value.index == 1


def test_leading_zeros_are_the_same_number() -> None:
    assert QUANTITY.one("0x00ff") == 255


def test_upper_case_digits_are_the_same_bytes() -> None:
    assert Data(2).column(["0xABcd", "0xabCD"]) == [b"\xab\xcd", b"\xab\xcd"]


def test_a_wrong_size_is_told() -> None:
    with pytest.raises(ValueError, match="has 2 bytes, not 32"):
        HASH.one("0x1234")
    with pytest.raises(ValueError, match="not 0 or 32"):
        Data(0, 32).one("0x1234")


def test_a_list_of_hashes_is_a_tuple() -> None:
    assert HashList().one(["0x" + "11" * 32]) == (b"\x11" * 32,)


def test_megabytes_are_not_quoted_in_an_error() -> None:
    with pytest.raises(ValueError) as caught:
        HASH.one("0x" + "zz" * 1_000_000)
    assert len(str(caught.value)) < 200


def test_what_is_remembered_is_bounded_and_still_right() -> None:
    kind = Remembered(QUANTITY)
    for start in range(0, 60_000, 1000):
        numbers = list(range(start, start + 1000))
        assert kind.column([hex(number) for number in numbers]) == numbers
    assert len(kind._known) < 20_000
