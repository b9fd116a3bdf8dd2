"""The PostgreSQL that a benchmark runs on."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click

from indexer.db.embedded import EmbeddedServer


class BenchServer(NamedTuple):
    """Where it is, and its main process's id where it is ours."""

    url: str
    pid: int | None


@contextmanager
def bench_server(url: str | None) -> Iterator[BenchServer]:
    """Use the given one, else run one of our own for as long as the block lasts."""
    if url is not None:
        yield BenchServer(url, None)
        return
    # Beside the user's own, never in it, and with its settings: fsync as shipped.
    with tempfile.TemporaryDirectory(prefix="indexer-bench-") as home:
        Path(home).chmod(0o711)
        with EmbeddedServer(Path(home) / "postgres") as server:
            click.echo(server.describe(), err=True)
            yield BenchServer(server.url, server.pid)
