"""Programs run beside the benchmark: their output, CPU time and memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from indexer.errors import IndexerError

# A program that was told to stop and did not.
_STOP_SECONDS = 30.0
_KIB = 1024
_SAMPLE_SECONDS = 0.05


class Usage(NamedTuple):
    """What a program and the processes it started used, once it has ended."""

    exit_code: int
    cpu_seconds: float
    peak_rss_bytes: int


class BenchmarkFailed(IndexerError):
    """A part of the benchmark did not do what it was to do."""


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "indexer", *arguments]


def run(*arguments: str, env: Mapping[str, str]) -> Usage:
    """Run a command of this program to its end; raise BenchmarkFailed on failure.

    ``peak_rss_bytes`` is that of its largest process.
    """
    process = subprocess.Popen(
        _command(*arguments),
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    peak = PeakMemory(process.pid)
    try:
        said = process.stderr.read() if process.stderr else b""
        # The kernel's own count for the process and those it waited for: exact,
        # where sampling would miss both ends. Not so its memory, for a new process
        # begins with the mark of the one that started it.
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        peak.stop()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.stderr:
        process.stderr.close()
    if process.returncode:
        tail = said.decode(errors="replace").strip().splitlines()[-3:]
        raise BenchmarkFailed(
            f"indexer {arguments[0]} ended with {process.returncode}: {' '.join(tail)}"
        )
    return Usage(process.returncode, usage.ru_utime + usage.ru_stime, peak.bytes)


class PeakMemory:
    """The most memory that any one process of a family ever held, as it runs."""

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            for pid in (self._pid, *_children(self._pid)):
                self.bytes = max(self.bytes, peak_rss_bytes(pid))


def _children(pid: int) -> list[int]:
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


@contextmanager
def running(*arguments: str) -> Iterator[tuple[int, str]]:
    """Run a command that announces itself by a line; give its id and that line."""
    process = subprocess.Popen(
        _command(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        line = process.stdout.readline().decode().strip() if process.stdout else ""
        if not line:
            raise BenchmarkFailed(f"indexer {arguments[0]} did not start")
        yield process.pid, line
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


@contextmanager
def in_background(*arguments: str, env: Mapping[str, str]) -> Iterator[int]:
    """Run a command until the body ends, and give its process id.

    Raises BenchmarkFailed where it had ended by itself before.
    """
    process = subprocess.Popen(
        _command(*arguments),
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process.pid
        if process.poll() is not None:
            raise BenchmarkFailed(
                f"indexer {arguments[0]} ended with {process.returncode}"
            )
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cpu_seconds(pid: int, *, with_children: bool = False) -> float:
    """Return the CPU time of a live process, with its children's, ended or not."""
    import psutil

    process = psutil.Process(pid)
    own = process.cpu_times()
    total = float(own.user + own.system)
    if with_children:
        total += float(own.children_user + own.children_system)
        for child in process.children():
            try:
                times = child.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += float(times.user + times.system)
    return total


def peak_rss_bytes(pid: int) -> int:
    """Return the most memory a live process ever held; 0 where nobody says."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * _KIB
    return 0
