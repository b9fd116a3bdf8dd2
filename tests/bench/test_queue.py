from __future__ import annotations

import sys

import pytest

from indexer.cli.benchqueue import print_report
from indexer.cli.benchserver import bench_server
from indexer.services.bench.queue import CASES, LARGE_CASES, QueueBench, run_queue_bench


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


@pytest.mark.bench
async def test_the_queue_beside_its_budgets() -> None:
    with bench_server(None) as server:
        report = await run_queue_bench(
            QueueBench(database_url=server.url), list(CASES), say=_say
        )
    print_report(report)


@pytest.mark.bench
async def test_claims_with_millions_of_rows_and_after_a_million_jobs() -> None:
    fresh = [case for case in CASES if case.load == "fresh"]
    with bench_server(None) as server:
        report = await run_queue_bench(
            QueueBench(database_url=server.url), [*fresh, *LARGE_CASES], say=_say
        )
    print_report(report)
