"""What commitments are made of is what other libraries make of the same values."""

from __future__ import annotations

import os
from typing import Any

import pytest
import rlp  # type: ignore[import-untyped]
from eth_hash.auto import keccak as other_keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.chain.verify import bloom, keccak
from indexer.chain.verify import rlp as ours
from indexer.chain.verify.receipts import encode_logs
from indexer.chain.verify.trie import EMPTY_ROOT, ordered_root
from indexer.rows import LogRow
from tests.support import consensus

_LENGTHS = st.one_of(
    st.integers(0, 60), st.sampled_from([255, 256, 257, 1023, 1024, 1025, 65_536])
)
_NUMBERS = st.one_of(
    st.integers(0, 2**256 - 1), st.integers(0, 300), st.sampled_from([2**248, 2**64])
)
_WORD = st.binary(min_size=32, max_size=32)


def _data(length: int, first: int) -> bytes:
    return bytes((first,)) * min(length, 1) + os.urandom(max(length - 1, 0))


@given(_NUMBERS)
def test_numbers_are_encoded_as_another_library_encodes_them(value: int) -> None:
    expected = rlp.encode(value)
    assert ours.fresh_number(value) == expected
    assert ours.NUMBERS[value] == expected
    assert ours.NUMBERS[value] == expected
    assert ours.word(value) == expected


@given(_LENGTHS, st.integers(0, 255))
def test_strings_and_lists_are_encoded_as_another_library_encodes_them(
    length: int, first: int
) -> None:
    data = _data(length, first)
    assert ours.text(data) == ours.text_head(data) + data == rlp.encode(data)
    items = [data, b"", b"\x7f", [data, []]]
    encoded = ours.text(data) + b"\x80\x7f" + ours.array(ours.text(data) + b"\xc0")
    assert ours.array(encoded) == rlp.encode(items)


@pytest.mark.parametrize("encode", [ours.fresh_number, ours.NUMBERS.__getitem__])
@pytest.mark.parametrize("value", [-1, -300])
def test_a_negative_number_is_refused(encode: Any, value: int) -> None:
    with pytest.raises(ValueError, match="negative"):
        encode(value)


def test_numbers_that_never_repeat_do_not_pile_up() -> None:
    for value in range(10**9, 10**9 + 40_000):
        assert ours.NUMBERS[value]
    assert len(ours.NUMBERS) <= 16_384


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_digests_are_those_of_another_library(items: list[bytes]) -> None:
    expected = [other_keccak(item) for item in items]
    assert keccak.keccaks(items) == expected
    assert list(map(keccak.keccak, items)) == expected


# Every length at which the shape of the trie changes, and one either side.
_COUNTS = sorted(
    {
        *range(20),
        *(
            edge + by
            for edge in (32, 112, 128, 144, 160, 256, 272)
            for by in (-1, 0, 1)
        ),
        *(511, 512, 513, 1024),
    }
)


# Below 32 bytes a node stands in its parent as it is.
_EDGES = [1, 3, 26, 27, 28, 29, 31, 32, 33, 55, 56, 400]
_TRIES = [
    (count, length)
    for count in _COUNTS
    for length in (_EDGES if count < 20 else [28, 33])
]


@pytest.mark.parametrize(("count", "length"), _TRIES)
def test_c3_the_root_of_a_list_is_that_of_a_general_trie(
    count: int, length: int
) -> None:
    values = [os.urandom(length) for _ in range(count)]
    assert f"0x{ordered_root(values).hex()}" == consensus.list_root(values)


@given(st.lists(st.binary(min_size=1, max_size=80), max_size=40))
@settings(deadline=None)
def test_c3_the_root_of_values_of_mixed_lengths_is_that_of_a_general_trie(
    values: list[bytes],
) -> None:
    assert f"0x{ordered_root(values).hex()}" == consensus.list_root(values)


def test_the_root_of_no_values_is_known() -> None:
    assert ordered_root([]) == EMPTY_ROOT
    assert f"0x{EMPTY_ROOT.hex()}" == consensus.list_root([])


def test_the_values_are_not_changed_by_making_their_root() -> None:
    values = [bytes((i,)) * 40 for i in range(30)]
    before = list(values)
    ordered_root(values)
    assert values == before


def _log(address: bytes, listed: list[bytes], length: int, first: int) -> LogRow:
    a, b, c, d = [*listed, None, None, None, None][:4]
    data = _data(length, first)
    return LogRow(1, 0, 0, bytes(32), address, a, b, c, d, data, None)


_LOGS = st.builds(
    _log,
    st.binary(min_size=20, max_size=20),
    st.lists(_WORD, max_size=4),
    _LENGTHS,
    st.integers(0, 255),
)


def _topics(log: LogRow) -> list[bytes]:
    topics = (log.topic0, log.topic1, log.topic2, log.topic3)
    return [topic for topic in topics if topic is not None]


@given(st.lists(_LOGS, max_size=4))
def test_logs_are_encoded_as_another_library_encodes_them(logs: list[LogRow]) -> None:
    expected = [rlp.encode([log.address, _topics(log), log.data]) for log in logs]
    assert encode_logs(logs) == expected


@given(st.lists(_LOGS, max_size=4))
def test_c3_the_bloom_of_logs_is_what_the_yellow_paper_says(logs: list[LogRow]) -> None:
    mask = 0
    for bits in bloom.log_masks(logs):
        mask |= bits
    shown = [
        {
            "address": f"0x{log.address.hex()}",
            "topics": [f"0x{topic.hex()}" for topic in _topics(log)],
        }
        for log in logs
    ]
    assert f"0x{bloom.bloom(mask).hex()}" == consensus.logs_bloom(shown)


def test_a_log_with_a_gap_in_its_topics_is_refused() -> None:
    log = LogRow(
        1, 0, 0, bytes(32), bytes(20), bytes(32), None, bytes(32), None, b"", None
    )
    with pytest.raises(TypeError):
        encode_logs([log])
