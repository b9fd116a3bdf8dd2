"""How long a new block takes from the node to its row, and to its logs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

from indexer.db.connection import Database
from indexer.db.queries import load
from indexer.ranges import BlockRange
from indexer.services.bench.capped import capped
from indexer.services.bench.node import BenchNode, bench_node
from indexer.services.bench.processes import BenchmarkFailed, in_background
from indexer.services.bench.schema import bench_schema, server_settings
from indexer.services.plan import plan
from indexer.store.coverage import BUCKET_HEIGHTS
from indexer.tasks import end_tasks

_QUERIES = load("bench")
_SEEN = _QUERIES["seen_at_tip"]
_LEFT = _QUERIES["left_to_run"]

# How often the tables are looked at: what is measured is at most this much too long.
_LOOK_SECONDS = 0.002
# Blocks that nobody measures: connections, caches and plans are made with them, and
# the process for the tip's jobs starts. Again while they take long, but not for ever.
_WARM_UP = 5
_WARM_UPS = 10
_WARM_MS = 500.0
_PATIENCE_SECONDS = 60.0
_RANGE_SIZE = 5_000

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class TipBench:
    """What to measure; ``seconds`` is how long each rate is kept up.

    ``is_local`` is whether the server runs on this machine, for this benchmark alone.
    """

    database_url: str
    is_local: bool = False
    profile: str = "sparse"
    rates: Sequence[float] = (1.0, 4.0, 20.0)
    seconds: float = 30.0
    backfill_blocks: int = 800_000
    concurrency: int = 10


@dataclass(frozen=True)
class Latency:
    """A rate's figures in milliseconds; ``lasted`` is whether the backfill did."""

    beside: str
    rate: float
    blocks: int
    row_p50: float
    row_p99: float
    logs_p50: float
    logs_p99: float
    lasted: bool


@dataclass
class TipReport:
    """What ``indexer bench tip`` prints."""

    rows: list[Latency]
    server: dict[str, str]

    def shown(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {"server": self.server, "latencies": [asdict(row) for row in self.rows]}


async def run_tip_bench(bench: TipBench, *, say: Say) -> TipReport:
    """Measure each rate beside an idle worker, then beside one that backfills.

    The node, the follower and the worker are processes of their own. Makes schemas of
    its own in the database and drops them. Raises BenchmarkFailed.
    """
    rows: list[Latency] = []
    say(f"making {bench.backfill_blocks:,} {bench.profile} blocks")
    async with bench_node(bench.profile, blocks=bench.backfill_blocks) as node:
        for backfills in (False, True):
            async with bench_schema(bench.database_url) as database:
                name = "a backfill" if backfills else "nothing"
                if backfills:
                    whole = BlockRange(0, bench.backfill_blocks - 1)
                    await plan(database, blocks=whole, range_size=_RANGE_SIZE)
                async with _programs(bench, database, node, backfills=backfills):
                    watch = await _Watch.begin(database, node)
                    for rate in bench.rates:
                        row = await watch.measure(rate, bench.seconds, beside=name)
                        rows.append(row)
                        say(
                            f"{rate:g} blocks/s beside {name}: row p99 "
                            f"{row.row_p99:.1f} ms, logs p99 {row.logs_p99:.1f} ms"
                        )
    return TipReport(rows, await server_settings(bench.database_url))


@asynccontextmanager
async def _programs(
    bench: TipBench, database: Database, node: BenchNode, *, backfills: bool
) -> AsyncIterator[None]:
    where = ["--database-url", database.url, "--schema", database.schema]
    where += ["--rpc-url", node.url.replace("http://", "ws://")]
    env = {"INDEXER_LOG_FORMAT": "json"}
    work = ["work", "--concurrency", str(bench.concurrency)]
    with ExitStack() as stack:
        stack.enter_context(
            in_background("follow", "--from", "latest", *where, env=env)
        )
        worker = stack.enter_context(in_background(*work, *where, env=env))
        if backfills:
            async with capped(database, worker, is_local=bench.is_local):
                yield
        else:
            yield


class _Watch:
    """Mines blocks and looks at the tables until they show them."""

    def __init__(self, database: Database, node: BenchNode) -> None:
        self._database = database
        self._node = node
        self._mined: dict[int, float] = {}
        self._row: dict[int, float] = {}
        self._logs: dict[int, float] = {}

    @classmethod
    async def begin(cls, database: Database, node: BenchNode) -> _Watch:
        """Wait until the programs follow the tip."""
        watch = cls(database, node)
        end = time.monotonic() + _PATIENCE_SECONDS
        async with database.connection() as conn:
            head = int(str(await _head(node)), 16)
            while not await _SEEN.rows(conn, first=head, size=BUCKET_HEIGHTS):
                if time.monotonic() > end:
                    raise BenchmarkFailed("the follower does not reach the tip")
                await asyncio.sleep(0.05)
        for _ in range(_WARM_UPS):
            await watch._mine(_WARM_UP, 4.0)
            if max(watch._took(watch._logs)) < _WARM_MS:
                break
        return watch

    def _took(self, seen: dict[int, float]) -> list[float]:
        """Return the milliseconds from each block to when something of it was seen."""
        return [1e3 * (seen[each] - at) for each, at in self._mined.items()]

    async def measure(self, rate: float, seconds: float, *, beside: str) -> Latency:
        """Mine blocks at a rate and return how long they took to be seen."""
        blocks = max(1, round(rate * seconds))
        await self._mine(blocks, rate)
        async with self._database.connection() as conn:
            left = await _LEFT.row(conn)
        rows, logs = self._took(self._row), self._took(self._logs)
        return Latency(
            beside=beside,
            rate=rate,
            blocks=blocks,
            row_p50=_percentile(rows, 50),
            row_p99=_percentile(rows, 99),
            logs_p50=_percentile(logs, 50),
            logs_p99=_percentile(logs, 99),
            lasted=beside == "nothing" or (left is not None and bool(left[0])),
        )

    async def _mine(self, blocks: int, rate: float) -> None:
        self._mined, self._row, self._logs = {}, {}, {}
        first = int(str(await _head(self._node)), 16) + 1
        looking = asyncio.create_task(self._look(BlockRange(first, first + blocks - 1)))
        try:
            due = time.monotonic()
            for height in range(first, first + blocks):
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                due += 1 / rate
                # Before it is asked for, so that nothing of the way is left out.
                self._mined[height] = time.perf_counter()
                await self._node.endpoint.call("devnode_mine", [1])
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await looking
        except TimeoutError:
            raise BenchmarkFailed(
                f"{blocks - len(self._logs)} of {blocks} blocks never came"
            ) from None
        finally:
            await end_tasks(looking)

    async def _look(self, wanted: BlockRange) -> None:
        async with self._database.connection() as conn:
            first = wanted.first
            while first <= wanted.last:
                rows = await _SEEN.rows(conn, first=first, size=BUCKET_HEIGHTS)
                now = time.perf_counter()
                for number, has_logs in rows:
                    self._row.setdefault(number, now)
                    if has_logs:
                        self._logs.setdefault(number, now)
                while first in self._logs:
                    first += 1
                await asyncio.sleep(_LOOK_SECONDS)


async def _head(node: BenchNode) -> str:
    return bytes(await node.endpoint.call("eth_blockNumber", [])).decode().strip('"')


def _percentile(values: list[float], share: int) -> float:
    """Return the smallest value that so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)]
