"""How fast ``indexer verify`` proves what is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from indexer.db.connection import Database
from indexer.services.bench.node import bench_node
from indexer.services.bench.pipeline import WorkSettings, backfill
from indexer.services.bench.processes import BenchmarkFailed
from indexer.services.bench.schema import bench_schema, server_settings
from indexer.services.verify.audit import audit
from indexer.services.verify.record import Asked

# Jobs that the backfill before is cut into.
_JOBS = 10

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class VerifyBench:
    """What to measure: so many blocks of a profile, with each number of processes."""

    database_url: str
    blocks: Mapping[str, int]
    processes: Sequence[int] = (1, 2)
    repeat: int = 3


@dataclass(frozen=True)
class Audited:
    """The best of some audits: the others met something else on the machine."""

    profile: str
    processes: int
    blocks: int
    rows: int
    seconds: float

    @property
    def blocks_a_second(self) -> float:
        """How many are proven a second."""
        return self.blocks / self.seconds


@dataclass
class VerifyReport:
    """What ``indexer bench verify`` prints."""

    rows: list[Audited]
    server: dict[str, str]

    def shown(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        rows = [
            {**asdict(row), "blocks_a_second": row.blocks_a_second} for row in self.rows
        ]
        return {"server": self.server, "audits": rows}


async def run_verify_bench(bench: VerifyBench, *, say: Say) -> VerifyReport:
    """Index the built-in node's chain, then have it proven, in turns.

    Makes schemas of its own in the database and drops them. Raises BenchmarkFailed.
    """
    rows: list[Audited] = []
    for profile, blocks in bench.blocks.items():
        say(f"indexing {blocks:,} {profile} blocks")
        async with (
            bench_node(profile, blocks=blocks) as node,
            bench_schema(bench.database_url) as database,
        ):
            await backfill(
                database,
                node,
                blocks=blocks,
                range_size=-(-blocks // _JOBS),
                settings=WorkSettings(verify="strict"),
            )
            found = [
                await _audited(database, profile, blocks, processes)
                for _ in range(bench.repeat)
                for processes in bench.processes
            ]
        for processes in bench.processes:
            same = [each for each in found if each.processes == processes]
            best = min(same, key=lambda each: each.seconds)
            rows.append(best)
            say(f"{profile}, {processes}: {best.blocks_a_second:,.0f} blocks/s")
    return VerifyReport(rows, await server_settings(bench.database_url))


async def _audited(
    database: Database, profile: str, blocks: int, processes: int
) -> Audited:
    report = await audit(
        database, Asked(None, None, None, None), processes=processes, restart=True
    )
    if not report.is_clean or report.events.proven != blocks:
        raise BenchmarkFailed(
            f"of {blocks} blocks {report.events.proven} were proven: "
            + "; ".join(map(str, report.faults[:3]))
        )
    return Audited(profile, processes, blocks, report.rows, report.seconds)
