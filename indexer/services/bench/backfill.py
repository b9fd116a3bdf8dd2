"""The cases of ``indexer bench backfill``, interleaved, and what came out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, NamedTuple

from indexer.db.connection import Database
from indexer.ranges import BlockRange
from indexer.services.bench.node import BenchNode, bench_node
from indexer.services.bench.pipeline import Ran, WorkSettings, backfill, work
from indexer.services.bench.processes import cpu_seconds, peak_rss_bytes
from indexer.services.bench.rawcopy import Prepared, prepare, raw_copy
from indexer.services.bench.schema import bench_schema, server_settings
from indexer.store.partitions import ensure_partitions

RAW = "raw COPY"

Say = Callable[[str], None]


class Case(NamedTuple):
    """A backfill to measure; ``latency`` in seconds is added to every request."""

    name: str
    profile: str
    latency: float = 0.0
    verify: str = "off"


class Size(NamedTuple):
    """How much of a profile is indexed, and in jobs of how many blocks.

    Small jobs, so that a short run has as many in flight as a long one.
    """

    blocks: int
    range_size: int


DEFAULT_CASES = (
    Case("dense", "dense"),
    Case("dense, verified", "dense", verify="strict"),
    Case("dense, 30 ms", "dense", latency=0.03),
    Case("sparse", "sparse"),
    Case("sparse, verified", "sparse", verify="strict"),
    Case("sparse, 30 ms", "sparse", latency=0.03),
)


@dataclass(frozen=True, kw_only=True)
class BackfillBench:
    """What to measure, on which database."""

    database_url: str
    postmaster_pid: int | None
    sizes: dict[str, Size]
    cases: Sequence[Case] = DEFAULT_CASES
    repeat: int = 3
    concurrency: int = 10
    processes: int = 1


@dataclass
class Row:
    """A case's figures: medians over the rounds, one element of ``all_seconds`` each.

    CPU is in milliseconds a block. What cannot be told is None.
    """

    name: str
    profile: str
    blocks: int
    rows: int
    json_bytes: int
    seconds: float = 0.0
    all_seconds: list[float] = field(default_factory=list)
    ratio_to_raw: float | None = None
    cpu_ms: dict[str, float] = field(default_factory=dict)
    peak_rss_mib: dict[str, float] = field(default_factory=dict)
    calls_a_block: float | None = None
    http_requests_a_block: float | None = None

    @property
    def blocks_a_second(self) -> float:
        """The rate that matters."""
        return self.blocks / self.seconds

    def shown(self) -> dict[str, Any]:
        """Return the figures as JSON has them."""
        return {
            **asdict(self),
            "blocks_a_second": self.blocks_a_second,
            "rows_a_second": self.rows / self.seconds,
            "json_mb_a_second": self.json_bytes / self.seconds / 1e6,
        }


@dataclass
class Report:
    """What ``indexer bench backfill`` prints."""

    rows: list[Row]
    stages_ms: dict[str, dict[str, float]]
    server: dict[str, str]

    def shown(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            "server": self.server,
            "stages_ms_a_block": self.stages_ms,
            "cases": [row.shown() for row in self.rows],
        }


class _Round(NamedTuple):
    """One run of a case."""

    seconds: float
    cpu: dict[str, float]
    rss: dict[str, int]
    rows: int
    ran: Ran | None


async def run_backfill_bench(bench: BackfillBench, *, say: Say) -> Report:
    """Measure every case ``repeat`` times, in turns; return the medians.

    Makes schemas of its own in the database and drops them. Raises BenchmarkFailed.
    """
    async with AsyncExitStack() as stack:
        nodes: dict[str, BenchNode] = {}
        prepared: dict[str, Prepared] = {}
        for profile in dict.fromkeys(case.profile for case in bench.cases):
            blocks = bench.sizes[profile].blocks
            say(f"making {blocks:,} {profile} blocks")
            node = await stack.enter_async_context(bench_node(profile, blocks=blocks))
            nodes[profile] = node
            prepared[profile] = await prepare(
                node.endpoint, blocks=blocks, profile=profile
            )
        runner = _Runner(bench, nodes, prepared)
        await runner.measure_start()
        cases = [*(Case(RAW, profile) for profile in nodes), *bench.cases]
        rounds: dict[Case, list[_Round]] = {case: [] for case in cases}
        for turn in range(bench.repeat):
            for case in cases:
                found = await runner.run(case)
                rounds[case].append(found)
                rate = bench.sizes[case.profile].blocks / found.seconds
                say(
                    f"round {turn + 1} of {bench.repeat}: {case.profile}, "
                    f"{case.name}: {rate:,.0f} blocks/s"
                )
        return Report(
            rows=_with_ratios([runner.row(case, rounds[case]) for case in cases]),
            stages_ms=_stages(prepared, bench.repeat),
            server=await server_settings(bench.database_url),
        )


class _Runner:
    """Runs the cases, each in a schema of its own."""

    def __init__(
        self,
        bench: BackfillBench,
        nodes: dict[str, BenchNode],
        prepared: dict[str, Prepared],
    ) -> None:
        self._bench = bench
        self._nodes = nodes
        self._prepared = prepared
        self._start_cpu = 0.0

    async def measure_start(self) -> None:
        """Find out what a worker costs that finds nothing to do."""
        node = next(iter(self._nodes.values()))
        async with bench_schema(self._bench.database_url) as database:
            used = await work(database, node.url, self._settings("off"))
        self._start_cpu = used.cpu_seconds

    async def run(self, case: Case) -> _Round:
        """Run one case once."""
        async with bench_schema(self._bench.database_url) as database:
            before = self._postgres_cpu()
            if case.name == RAW:
                return await self._raw(case, database, before)
            return await self._pipeline(case, database, before)

    async def _raw(self, case: Case, database: Database, before: float) -> _Round:
        prepared = self._prepared[case.profile]
        async with database.connection() as conn:
            await ensure_partitions(conn, BlockRange(0, prepared.blocks - 1))
        seconds = await raw_copy(database, prepared)
        cpu = {"postgres": self._postgres_cpu() - before}
        return _Round(seconds, cpu, {}, prepared.rows, None)

    async def _pipeline(self, case: Case, database: Database, before: float) -> _Round:
        node, size = self._nodes[case.profile], self._bench.sizes[case.profile]
        await node.set_latency(case.latency)
        try:
            ran = await backfill(
                database,
                node,
                blocks=size.blocks,
                range_size=size.range_size,
                settings=self._settings(case.verify),
            )
        finally:
            await node.set_latency(0.0)
        cpu = {
            "worker": ran.worker.cpu_seconds - self._start_cpu,
            "postgres": self._postgres_cpu() - before,
            "node": ran.asked.cpu_seconds,
        }
        rss = {"worker": ran.worker.peak_rss_bytes, "node": peak_rss_bytes(node.pid)}
        return _Round(ran.seconds, cpu, rss, ran.rows, ran)

    def _settings(self, verify: str) -> WorkSettings:
        return WorkSettings(self._bench.concurrency, self._bench.processes, verify)

    def _postgres_cpu(self) -> float:
        pid = self._bench.postmaster_pid
        return 0.0 if pid is None else cpu_seconds(pid, with_children=True)

    def row(self, case: Case, rounds: list[_Round]) -> Row:
        """Make the medians of a case's rounds."""
        prepared = self._prepared[case.profile]
        row = Row(
            name=case.name,
            profile=case.profile,
            blocks=prepared.blocks,
            rows=rounds[0].rows,
            json_bytes=prepared.json_bytes,
            seconds=median(each.seconds for each in rounds),
            all_seconds=[each.seconds for each in rounds],
        )
        for part in rounds[0].cpu:
            if part == "postgres" and self._bench.postmaster_pid is None:
                continue
            spent = median(each.cpu[part] for each in rounds)
            row.cpu_ms[part] = 1e3 * spent / prepared.blocks
        for part in rounds[0].rss:
            row.peak_rss_mib[part] = max(each.rss[part] for each in rounds) / 2**20
        asked = [each.ran.asked for each in rounds if each.ran is not None]
        if asked:
            blocks = prepared.blocks
            row.calls_a_block = median(each.calls for each in asked) / blocks
            row.http_requests_a_block = (
                median(each.http_requests for each in asked) / blocks
            )
        return row


def _with_ratios(rows: list[Row]) -> list[Row]:
    raw = {row.profile: row.seconds for row in rows if row.name == RAW}
    for row in rows:
        if row.name != RAW:
            row.ratio_to_raw = raw[row.profile] / row.seconds
    return rows


def _stages(prepared: dict[str, Prepared], repeat: int) -> dict[str, dict[str, float]]:
    shown = {}
    for profile, each in prepared.items():
        spent = asdict(each.stages)
        spent["send"] /= repeat
        shown[profile] = {
            stage: 1e3 * seconds / each.blocks for stage, seconds in spent.items()
        }
    return shown
