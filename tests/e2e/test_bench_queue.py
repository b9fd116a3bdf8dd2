from __future__ import annotations

import json

from tests.support.program import run

CASES = ("batches",)


def test_the_queue_is_measured_beside_another_client(database_url: str) -> None:
    cases = [word for case in CASES for word in ("--case", case)]

    done = run(
        "bench",
        "queue",
        *("--database-url", database_url, "--jobs", "60", "--workers", "2"),
        *("--heartbeat", "1s", "--payload-bytes", "200", "--json", *cases),
    )

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [row["name"] for row in report["rows"]] == list(CASES)
    for row in report["rows"]:
        assert row["jobs"] == 60 and row["jobs_a_second"] > 0
        assert row["wal_bytes_a_job"] > 200
        assert row["claim_first_ms"] > 0 and row["client_p50_ms"] > 0
        assert row["replica_lag_bytes"] is None
    assert report["wake_up_p99_ms"] >= report["wake_up_p50_ms"] >= 0
    # Of so few heartbeats it says nothing yet.
    assert 0 <= report["heartbeat_hot_share"] <= 1
    assert report["server"]["fsync"] in ("on", "off")


def test_an_unknown_case_of_the_queue_is_refused_with_the_known_ones() -> None:
    done = run("bench", "queue", "--case", "nothing")

    assert done.returncode == 2
    assert "'batches'" in done.stderr
