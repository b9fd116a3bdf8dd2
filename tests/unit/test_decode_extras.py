"""Text that ``jsonb`` cannot hold is altered, marked, and never dropped."""

from __future__ import annotations

import json

import pytest

from indexer.chain.decode.extras import SANITIZED, Extras, storable


@pytest.mark.parametrize(
    "sent",
    [b'"0x1f"', b"null", b"true", b"12", b"[]", b'{"a": [1, 2.50, 1e400]}',
     b'"\\\\u0000"', b'"caf\xc3\xa9 \\u00e9 \\ud83d\\ude00"', b'"\\"\\n\\/"',
     b'"1e999999"', b'{"a":": 1e999999"}', b'0.10000000000000000000000000001'],
)  # fmt: skip
def test_what_jsonb_holds_is_kept_to_the_letter(sent: bytes) -> None:
    assert storable(sent) == (sent.decode(), False)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b'"a\\u0000b"', "a\ufffdb"),
        (b'"\\ud800"', "\ufffd"),
        (b'"\\udc00\\ud800"', "\ufffd\ufffd"),
        (b'"\\ud800\\u0041"', "\ufffdA"),
        (b'"a\xffb"', "a\ufffdb"),
        (b'"\xed\xa0\x80"', "\ufffd\ufffd\ufffd"),
        (b'"\\\\\\u0000"', "\\\ufffd"),
    ],
)
def test_what_jsonb_cannot_hold_becomes_the_replacement_character(
    sent: bytes, kept: str
) -> None:
    text, altered = storable(sent)
    assert altered
    assert json.loads(text) == kept


@pytest.mark.parametrize(
    "sent", [b"1e999999", b'{"a": [-1E+131073]}', b"9" * 20_000, b"[1e-99999]"]
)
def test_a_number_that_numeric_cannot_hold_is_refused(sent: bytes) -> None:
    with pytest.raises(ValueError, match="too large to store"):
        storable(sent)


def test_rows_without_extras_have_none() -> None:
    assert Extras(2).texts() == [None, None]


def test_extras_are_one_object_a_row_that_names_what_was_altered() -> None:
    extras = Extras(3)
    extras.keep(0, "l1Fee", b'"0x1"')
    extras.keep(0, "note", b'"a\\u0000"')
    extras.keep(2, "caf\u00e9", b"null")
    first, second, third = extras.texts()
    assert first is not None
    assert json.loads(first) == {"l1Fee": "0x1", "note": "a\ufffd", SANITIZED: ["note"]}
    assert second is None
    assert third is not None
    assert json.loads(third) == {"caf\u00e9": None}
