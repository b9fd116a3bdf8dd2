"""Measure procrastinate, pgqueuer and this queue in one run on one PostgreSQL.

``make compare-queues``. Theirs are installed from PyPI into an environment that is
thrown away; the server is an embedded one with its settings as shipped. Each figure is
the median of three runs in turns (or as many as the argument says), each in a database
of its own. Prints a table.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psycopg
from psycopg import sql

from indexer.db.embedded import EmbeddedServer
from tests.support.postgres import in_database

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
THEIRS = ("procrastinate", "pgqueuer")
OURS = "indexer"
_RIVALS = Path(__file__).with_name("rivals.py")


class Measure(NamedTuple):
    """A row of the table."""

    name: str
    title: str
    jobs: int
    places: int


MEASURES = (
    Measure("drain", "drain 20,000 jobs, jobs/s", 20_000, 0),
    Measure("latency", "commit to start, median ms", 200, 2),
    Measure(
        "old-snapshot",
        "claim over 200,000 rows dead under an old snapshot, median ms",
        200,
        2,
    ),
)


def main() -> None:
    """Measure everything and print the table."""
    found: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="indexer-compare-") as home:
        place = Path(home)
        place.chmod(0o711)
        theirs = _environment(place / "venv")
        heads = _versions(theirs)
        with EmbeddedServer(place / "postgres") as server:
            _say(server.describe())
            for turn in range(ROUNDS):
                for measure in MEASURES:
                    for queue in (*THEIRS, OURS):
                        python = sys.executable if queue == OURS else str(theirs)
                        value = _measure(python, queue, measure, server.url)
                        found.setdefault((queue, measure.name), []).append(value)
                        _say(f"{turn + 1}: {queue}, {measure.name}: {value:.2f}")
    sys.stdout.write(_table(found, heads))


def _environment(place: Path) -> Path:
    _say("installing " + " and ".join(THEIRS))
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    python = place / "bin" / "python"
    packages = [*THEIRS, "asyncpg", "psycopg[binary,pool]"]
    subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
    return python


def _measure(python: str, queue: str, measure: Measure, server: str) -> float:
    name = f"compare_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            arguments = [queue, measure.name, in_database(server, name)]
            done = subprocess.run(
                [python, str(_RIVALS), *arguments, str(measure.jobs)],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            conn.execute("checkpoint")
        finally:
            drop = sql.SQL("drop database {} with (force)")
            conn.execute(drop.format(sql.Identifier(name)))
    return float(done.stdout.split()[-1])


def _table(found: dict[tuple[str, str], list[float]], heads: list[str]) -> str:
    lines = [
        "| one process, ten at a time | " + " | ".join([*heads, OURS]) + " |",
        "| --- |" + " ---: |" * (len(heads) + 1),
    ]
    for measure in MEASURES:
        values = (
            f"{median(found[queue, measure.name]):,.{measure.places}f}"
            for queue in (*THEIRS, OURS)
        )
        lines.append(f"| {measure.title} | " + " | ".join(values) + " |")
    return "\n".join(lines) + "\n"


def _versions(python: Path) -> list[str]:
    ask = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    return [
        name
        + " "
        + subprocess.run(
            [str(python), "-c", ask, name], check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in THEIRS
    ]


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    main()
