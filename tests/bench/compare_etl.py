"""Measure ethereum-etl and this program on one node, one database and one range.

``make compare-etl``. Theirs is installed from PyPI into an environment that is thrown
away, and runs twice over with the settings of :data:`TUNINGS`, of which the better
counts: ``export_blocks_and_transactions``, ``export_receipts_and_logs``, and then the
files by COPY into tables without a single index. Ours is ``plan`` and ``work --drain``
into the chain tables with all of theirs. Medians of three, in turns. Prints a table.
"""

from __future__ import annotations

import asyncio
import csv
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psycopg
from psycopg import sql

from indexer.db.embedded import EmbeddedServer
from indexer.services.bench.node import bench_node

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
THEIRS = "ethereum-etl==2.4.2"
# Batch size and workers; its defaults are 100 and 5.
TUNINGS = (("100", "2"), ("50", "10"))
_COMMANDS = ("blocks", "transactions", "receipts", "logs")
# Its parser wants a function that Python has not had since 3.11.
_SHIM = "import inspect; inspect.getargspec = inspect.getfullargspec\n"


class Range(NamedTuple):
    """A profile of the node, and how many blocks of it from the first on."""

    profile: str
    blocks: int
    range_size: int


RANGES = (Range("dense", 400, 40), Range("sparse", 10_000, 1_000))


class Theirs:
    """ethereum-etl in an environment of its own."""

    def __init__(self, place: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        self._bin = place / "bin"
        subprocess.run(
            [str(self._bin / "python"), "-m", "pip", "install", "-q", THEIRS],
            check=True,
        )
        [packages] = place.glob("lib/python*/site-packages")
        (packages / "getargspec.pth").write_text(_SHIM)

    def export(self, node: str, blocks: int, folder: Path, tuning: int) -> None:
        """Write a range into four CSV files."""
        batch, workers = TUNINGS[tuning]
        common = ["-p", node, "-b", batch, "-w", workers]
        files = {name: str(folder / f"{name}.csv") for name in _COMMANDS}
        self._run(
            "export_blocks_and_transactions",
            *("-s", "0", "-e", str(blocks - 1), *common),
            *("--blocks-output", files["blocks"]),
            *("--transactions-output", files["transactions"]),
        )
        hashes = str(folder / "hashes.txt")
        self._run(
            *("extract_csv_column", "-i", files["transactions"]),
            *("-c", "hash", "-o", hashes),
        )
        self._run(
            "export_receipts_and_logs",
            *("--transaction-hashes", hashes, *common),
            *("--receipts-output", files["receipts"], "--logs-output", files["logs"]),
        )

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._bin / "ethereumetl"), *arguments],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SystemExit(
                f"ethereumetl {arguments[0]} failed: {done.stderr[-2000:]}"
            )


def main() -> None:
    """Measure everything and print the table."""
    found: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="indexer-compare-") as home:
        place = Path(home)
        place.chmod(0o711)
        _say(f"installing {THEIRS}")
        theirs = Theirs(place / "venv")
        with EmbeddedServer(place / "postgres") as server:
            _say(server.describe())
            for each in RANGES:
                asyncio.run(_compare(each, theirs, server.url, place, found))
    sys.stdout.write(_table(found))


async def _compare(
    each: Range,
    theirs: Theirs,
    database: str,
    place: Path,
    found: dict[tuple[str, str], list[float]],
) -> None:
    def note(what: str, seconds: float) -> None:
        rate = each.blocks / seconds
        found.setdefault((each.profile, what), []).append(rate)
        _say(f"{each.profile}, {what}: {rate:,.1f} blocks/s")

    async with bench_node(each.profile, blocks=each.blocks) as node:
        tuning = _better_tuning(theirs, node.url, each, place)
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory(dir=place) as made:
                folder = Path(made)
                export = _seconds(
                    partial(theirs.export, node.url, each.blocks, folder, tuning)
                )
                note("files", export)
                note("theirs", export + _seconds(partial(_load, database, folder)))
            note("ours", _ours(each, node.url, database, verify="off"))
            note("proven", _ours(each, node.url, database, verify="strict"))


def _better_tuning(theirs: Theirs, node: str, each: Range, place: Path) -> int:
    took = []
    for tuning in range(len(TUNINGS)):
        with tempfile.TemporaryDirectory(dir=place) as made:
            some = each.blocks // 4
            export = partial(theirs.export, node, some, Path(made), tuning)
            took.append(_seconds(export))
    return took.index(min(took))


def _load(database: str, folder: Path) -> None:
    """Copy the files into tables of text, and check that nothing is missing."""
    with psycopg.connect(database) as conn:
        for name in _COMMANDS:
            file = folder / f"{name}.csv"
            with file.open(newline="") as lines:
                columns = next(csv.reader(lines))
            table = sql.Identifier(f"etl_{name}")
            fields = sql.SQL(", ").join(
                sql.SQL("{} text").format(sql.Identifier(each)) for each in columns
            )
            conn.execute(sql.SQL("drop table if exists {}").format(table))
            conn.execute(sql.SQL("create table {} ({})").format(table, fields))
            statement = sql.SQL("copy {} from stdin (format csv, header)").format(table)
            with conn.cursor().copy(statement) as copy, file.open("rb") as data:
                while piece := data.read(2**20):
                    copy.write(piece)


def _ours(each: Range, node: str, database: str, *, verify: str) -> float:
    schema = "compare"
    where = ("--database-url", database, "--schema", schema)
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("drop schema if exists compare cascade")
        conn.execute("checkpoint")
    _indexer("migrate", *where)

    def index() -> None:
        _indexer(
            *("plan", "--from", "0", "--to", str(each.blocks), "--rpc-url", node),
            *("--range-size", str(each.range_size), *where),
        )
        _indexer("work", "--drain", "--rpc-url", node, "--verify", verify, *where)

    return _seconds(index)


def _indexer(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "indexer", *arguments],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"indexer {arguments[0]} failed: {done.stderr[-2000:]}")


def _seconds(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _table(found: dict[tuple[str, str], list[float]]) -> str:
    titles = {
        "files": f"{THEIRS.replace('==', ' ')}, into CSV files",
        "theirs": "the same, and COPY into tables without an index",
        "ours": "indexer, with all indexes, `--verify off`",
        "proven": "indexer, every root proven",
    }
    heads = [f"{each.profile}, {each.blocks:,} blocks" for each in RANGES]
    lines = [
        "| blocks a second | " + " | ".join(heads) + " |",
        "| --- |" + " ---: |" * len(RANGES),
    ]
    for what, title in titles.items():
        rates = [f"{median(found[each.profile, what]):,.0f}" for each in RANGES]
        lines.append(f"| {title} | " + " | ".join(rates) + " |")
    return "\n".join(lines) + "\n"


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    main()
