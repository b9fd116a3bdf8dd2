"""What a process of its own takes of memory."""

from __future__ import annotations

import time
from pathlib import Path

from tests.support.program import Program


def peak_bytes(pid: int) -> int:
    """Return the most memory a process ever held, 0 once it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return 0
    peaks = [each for each in status.splitlines() if each.startswith("VmHWM:")]
    return int(peaks[0].split()[1]) * 1024 if peaks else 0


def peak_until_end(program: Program, seconds: float) -> int:
    """Wait until a program ends; return the most memory it held."""
    peak = 0
    deadline = time.monotonic() + seconds
    while program.process.poll() is None:
        assert time.monotonic() < deadline, program.err[-4000:]
        peak = max(peak, peak_bytes(program.process.pid))
        time.sleep(0.02)
    return peak
