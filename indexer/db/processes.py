"""Find and end the processes of one PostgreSQL data directory.

Every process of a server has its data directory as working directory, which tells
it from a program that was given a dead server's process id.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

_POLL_S = 0.01
# A process that was told to end at once needs milliseconds, on a swapping machine
# a second.
_QUIT_TIMEOUT_S = 2.0


def of_server(data: Path, pid: int) -> psutil.Process | None:
    """Return the process with this id if it belongs to the server of ``data``."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if _belongs(process, data):
            return process
    return None


def exists(pid: int) -> bool:
    """Tell whether any process has this id, a zombie too."""
    return psutil.pid_exists(pid)


def send(process: psutil.Process, how: signal.Signals) -> None:
    """Send a signal, to nobody where the process is gone."""
    with suppress(psutil.NoSuchProcess):
        process.send_signal(how)


def wait_gone(processes: Iterable[psutil.Process], seconds: float) -> bool:
    """Wait until none of them is alive; return whether that came true in time."""
    deadline = time.monotonic() + seconds
    left = list(processes)
    while left := [process for process in left if _alive(process)]:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def end_all(data: Path) -> None:
    """End whatever still runs in a data directory, also in a deleted one."""
    left = [p for p in psutil.process_iter() if _belongs(p, data)]
    for how in (signal.SIGQUIT, signal.SIGKILL):
        for process in left:
            send(process, how)
        if wait_gone(left, _QUIT_TIMEOUT_S):
            return


def _belongs(process: psutil.Process, data: Path) -> bool:
    try:
        return (
            process.name().startswith("postgres")
            and process.cwd() == str(data)
            and _alive(process)
        )
    except psutil.Error:
        return False


def _alive(process: psutil.Process) -> bool:
    # A zombie counts as gone: in a container nobody may ever collect it.
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
