"""The benchmarks of the tip and of the audit run, and print what they found."""

from __future__ import annotations

import json

from tests.support.program import run


def test_the_tip_is_measured_beside_nothing_and_beside_a_backfill(
    database_url: str,
) -> None:
    done = run(
        *("bench", "tip", "--database-url", database_url, "--rate", "20"),
        *("--seconds", "1", "--backfill-blocks", "2000", "--json"),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    beside = [(row["beside"], row["blocks"]) for row in report["latencies"]]
    assert beside == [("nothing", 20), ("a backfill", 20)]
    for row in report["latencies"]:
        assert 0 < row["row_p50"] <= row["row_p99"] <= row["logs_p99"]
    assert report["server"]["fsync"] in ("on", "off")


def test_the_audit_is_measured(database_url: str) -> None:
    done = run(
        *("bench", "verify", "--database-url", database_url, "--dense-blocks", "3"),
        *("--sparse-blocks", "2100", "--repeat", "1", "--processes", "1"),
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split("│") for line in done.stdout.splitlines() if "│" in line]
    shown = [(row[1].strip(), row[2].strip(), row[3].strip()) for row in rows]
    assert shown == [
        ("dense", "1", "3"),
        ("sparse", "1", "2,100"),
    ]
