"""A process that cannot end in order ends all the same."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import timedelta

import pytest

from indexer.cli.runtime import end_within
from indexer.config import load_config

_SCRIPT = """
import asyncio, time
from datetime import timedelta
from indexer.cli.runtime import stop_on_signals

async def main():
    with stop_on_signals(lambda: None, end_within=timedelta(seconds=0.2)) as stopped:
        print("ready", flush=True)
        while stopped.signal is None:
            await asyncio.sleep(0.01)
    {waits}

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "waits", ["await asyncio.Event().wait()", "time.sleep(1000)"], ids=["loop", "block"]
)
@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
def test_p3_what_waits_for_ever_after_a_signal_is_ended(
    waits: str, which: signal.Signals
) -> None:
    script = _SCRIPT.format(waits=waits)
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(which)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + which
    assert "ending at once" in said


def test_p3_there_is_time_to_end_in_order() -> None:
    config = load_config(grace="7s")
    assert end_within(config) > timedelta(seconds=7)
