from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
INVARIANTS = [
    *(f"q{number}" for number in range(1, 14)),
    *(f"c{number}" for number in range(1, 9)),
    *(f"p{number}" for number in range(1, 4)),
]


def carried() -> set[str]:
    """Return the invariants that the names of test functions carry."""
    names = [
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8"))
    ]
    return {part for name in names for part in name.split("_")}


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_each_invariant_has_a_test_that_carries_its_number(invariant: str) -> None:
    assert invariant in carried()
