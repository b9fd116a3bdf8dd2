from __future__ import annotations

from datetime import UTC, datetime
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.errors import ConfigError
from indexer.jobs.errortext import MAX_ERROR_BYTES, clean, describe
from indexer.jobs.job import Job
from indexer.jobs.payloads import check_kind, encode_payloads, is_too_deep


def nested(depth: int) -> dict[str, Any]:
    payload: dict[str, Any] = {}
    for _ in range(depth):
        payload = {"a": payload}
    return payload


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ({"a": "x\0"}, "NUL"),
        ({"x\0": 1}, "NUL"),
        ({"a": [{"b": ("\0",)}]}, "NUL"),
        ({"a": "\ud800"}, "surrogate"),
        ({"\udfff": 1}, "surrogate"),
        ({"a": float("nan")}, "not JSON"),
        ({"a": float("inf")}, "not JSON"),
        ({"a": 10**5000}, "not JSON"),
        ({"a": b"bytes"}, "not JSON"),
        ({"a": "x" * 1_000_001}, "at most 1000000 are taken"),
        ([1], "must be a JSON object"),
        (nested(100_000), "nested deeper than 200"),
    ],
)
def test_q11_a_payload_that_cannot_be_stored_is_refused_with_the_reason(
    payload: Any, problem: str
) -> None:
    with pytest.raises(ConfigError, match=rf"payload 1 of the 'x' jobs.*{problem}"):
        encode_payloads("x", [{}, payload])


@pytest.mark.parametrize(
    "payload", [{}, {"n": 2**256 - 1}, {"t": "ü\\u0000"}, nested(100), {"f": 1e300}]
)
def test_a_payload_that_can_be_stored_is_taken(payload: dict[str, Any]) -> None:
    assert len(encode_payloads("x", [payload])) == 1


@pytest.mark.parametrize(
    ("text", "too_deep"),
    [
        ("1", False),
        ("[" * 200 + "]" * 200, False),
        ("[" * 201 + "]" * 201, True),
        ("[" + "[]," * 500 + "[]]", False),
        ('{"' + "[" * 500 + '\\"": "' + "{" * 500 + '"}', False),
    ],
)
def test_depth_counts_brackets_that_are_open_and_not_in_texts(
    text: str, too_deep: bool
) -> None:
    assert is_too_deep(text) == too_deep


@pytest.mark.parametrize("kind", ["", "a\0b", "\ud800"])
def test_a_kind_that_cannot_be_stored_is_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match="cannot be stored"):
        check_kind(kind)


@given(st.text(st.characters(exclude_categories=())))
def test_q11_whatever_the_message_the_cleaned_one_is_unicode_without_nul(
    text: str,
) -> None:
    cleaned = clean(text)
    assert "\0" not in cleaned
    assert len(cleaned.encode()) <= MAX_ERROR_BYTES


def test_q11_cleaning_keeps_what_can_be_stored_and_marks_what_cannot() -> None:
    assert clean("é\0\ud800x\ud83d\ude00") == "é\ufffd\ufffdx\N{GRINNING FACE}"


def test_q11_a_long_message_of_many_bytes_is_cut_between_characters() -> None:
    cleaned = clean("é" * 10_000)
    assert len(cleaned.encode()) <= MAX_ERROR_BYTES
    assert set(cleaned) == {"é", "…"}


def test_q11_secrets_are_taken_out_before_the_text_is_cut() -> None:
    secret = "postgresql://user:hunter2@db.example/x"
    cleaned = clean("x" * (MAX_ERROR_BYTES - 30) + " " + secret)
    assert "hunter2" not in cleaned and "hunt" not in cleaned


def test_cleaning_time_grows_with_the_length_and_not_with_its_square() -> None:
    clean("deadbeef" * 10)
    begun = monotonic()
    clean("deadbeef" * 1_000_000)
    # Quadratic, this would take minutes.
    assert monotonic() - begun < 30


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


def test_q11_an_exception_that_cannot_be_printed_is_described() -> None:
    assert describe(Unprintable()) == "Unprintable (its message cannot be printed)"
    assert describe(ValueError("no")) == "ValueError: no"
    assert describe(ValueError()) == "ValueError"


def job_row(payload: str) -> tuple[Any, ...]:
    now = datetime.now(UTC)
    counters = (1, 10, None, 0, 0, 0)
    return (7, "x", payload, uuid4(), *counters, now, now, now, None, False)


def test_a_row_becomes_a_job_with_a_short_summary() -> None:
    job = Job.from_row(job_row('{"from": 0, "to": 9}'))
    assert job.summary() == 'x {"from": 0, "to": 9}'
    long = Job.from_row(job_row('{"t": "' + "y" * 500 + '"}'))
    assert len(long.summary()) == len("x ") + 100


@pytest.mark.parametrize("payload", ["[]", "1", "null", "[" * 100_000])
def test_a_payload_that_is_no_object_makes_no_job(payload: str) -> None:
    with pytest.raises(ValueError, match=r"object|nested|Expecting"):
        Job.from_row(job_row(payload))
