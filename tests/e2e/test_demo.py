"""The demo: from nothing, again, and after everything was killed."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.program import Program, run

QUICK = ["--blocks", "1500", "--tip-blocks", "2"]


def test_the_demo_starts_from_nothing_and_goes_on_where_it_was(tmp_path: Path) -> None:
    home = {"XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    with Program("demo", *QUICK, env=home) as killed:
        # In the middle of the backfill, database server and all.
        killed.expect(r"work: 10 claims in flight")
        killed.kill()
    first = run("demo", *QUICK, env=home)
    assert first.returncode == 0, first.stderr
    assert "data in" in first.stderr
    # The node's head rises each second, also while the backfill runs.
    until = re.search(r"following to block (\d+)", first.stderr)
    assert until, first.stderr
    last = int(until[1])
    assert last >= 1566
    assert "100.0 % of what is planned" in first.stdout
    assert first.stdout.count("select") >= 3
    second = run("demo", *QUICK, env=home)
    assert second.returncode == 0, second.stderr
    assert "plan: 0 jobs queued" in second.stderr
    assert f"following from block {last + 1}" in second.stderr
    again = re.search(r"following to block (\d+)", second.stderr)
    assert again, second.stderr
    status = run("status", env=home)
    assert f"{int(again[1]) + 1:,} blocks" in status.stdout
    assert "0 pending, 0 running, 0 failed" in status.stdout
