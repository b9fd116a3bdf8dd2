"""Run the program as its user does: as processes, killed without mercy."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

_PATIENCE_SECONDS = 60.0


class Program:
    """One running command, in a process group of its own.

    Leaves the context dead, whatever happened.
    """

    def __init__(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self.arguments = arguments
        self._said: tuple[str, str] | None = None
        self._out = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as we do
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "indexer", *arguments],
            stdout=self._out,
            stderr=self._err,
            stdin=subprocess.DEVNULL,
            env=clean_environment(env),
            cwd=cwd,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        # What it said can still be read afterwards.
        self._said = (self.out, self.err)
        self._out.close()
        self._err.close()

    @property
    def out(self) -> str:
        """What it has written to stdout so far."""
        return self._said[0] if self._said else self._read(self._out.fileno())

    @property
    def err(self) -> str:
        """What it has written to stderr so far."""
        return self._said[1] if self._said else self._read(self._err.fileno())

    @staticmethod
    def _read(descriptor: int) -> str:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, size, 0).decode(errors="replace")

    def wait(self, seconds: float = _PATIENCE_SECONDS) -> int:
        """Return the exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.arguments} did not end in {seconds} s:\n{self.err[-4000:]}"
            ) from None

    def signal(self, which: signal.Signals) -> None:
        """Send a signal to the process itself."""
        self.process.send_signal(which)

    def kill(self) -> None:
        """Kill it and whatever it started, as a power cut would."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        finally:
            self.process.wait(_PATIENCE_SECONDS)

    def expect(self, pattern: str, seconds: float = _PATIENCE_SECONDS) -> re.Match[str]:
        """Wait until its output matches; return the match."""
        deadline = time.monotonic() + seconds
        while True:
            found = re.search(pattern, self.out + self.err)
            if found:
                return found
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(
                    f"{self.arguments} never said {pattern!r}:\n{self.err[-4000:]}"
                )
            time.sleep(0.01)


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment without settings of ours or of libpq's."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("INDEXER_", "PG"))
    }
    return {**kept, **(extra or {})}


def run(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    seconds: float = 2 * _PATIENCE_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "indexer", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=clean_environment(env),
        cwd=cwd,
        timeout=seconds,
        check=False,
    )


@contextmanager
def watching(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Lend a connection for looking at a database from outside."""
    with psycopg.connect(url, autocommit=True) as conn:
        yield conn


def value(url: str, statement: str) -> object:
    """Return the first value of the first row."""
    with watching(url) as conn:
        row = conn.execute(statement.encode()).fetchone()
        return None if row is None else row[0]


def until(
    condition: Callable[[], object], *, what: str, seconds: float = _PATIENCE_SECONDS
) -> None:
    """Wait for a state, as soon as it is there."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain until {what}")
        time.sleep(0.005)
