"""``indexer bench backfill`` as its user runs it: it prints, and holds nobody to it."""

from __future__ import annotations

import sys

import pytest

from tests.support.program import Program

_HOUR_SECONDS = 3600.0


@pytest.mark.bench
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_backfill_is_measured_beside_raw_copy(processes: str) -> None:
    with Program("bench", "backfill", "--processes", processes) as program:
        assert program.wait(_HOUR_SECONDS) == 0, program.err
        sys.stdout.write(f"\n{processes} processes\n{program.out}")
        assert "raw COPY" in program.out
        assert "dense, verified" in program.out
