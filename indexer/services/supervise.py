"""Several worker processes under one: started, restarted, stopped together.

Each child reads its settings from its standard input, so that no secret stands on a
command line, and then its orders: ``stop``, ``hurry``. When the input ends, whoever
gave the orders is gone, and the child hands back what it holds. On its standard output
it reports how its work ended; one that ends without a report has died.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from time import monotonic
from typing import Any, Final

from indexer.backoff import delay_seconds
from indexer.config import Config

_LOG = logging.getLogger(__name__)

STOP: Final = b"stop\n"
HURRY: Final = b"hurry\n"

# A child that dies again and again (no memory, a broken installation) is started
# again twice a minute, which costs little and needs nobody.
_BASE_SECONDS: Final = 0.5
_CAP_SECONDS: Final = 30.0
# One that lived for so long did not die of what the one before it died of.
_HEALTHY_SECONDS: Final = 60.0
# Beyond the grace time, in which a child ends by itself.
_PATIENCE_SECONDS: Final = 10.0


def shares(config: Config) -> list[Config]:
    """Return the settings of each process: its share of the claims and requests."""
    count = min(config.processes, config.concurrency)
    whole, more = divmod(config.concurrency, count)
    return [
        config.model_copy(
            update={
                "processes": 1,
                "concurrency": whole + (index < more),
                "rpc_rps": None if config.rpc_rps is None else config.rpc_rps / count,
                "metrics_port": _port(config.metrics_port, index),
            }
        )
        for index in range(count)
    ]


def _port(first: int | None, index: int) -> int | None:
    return first + index if first else first


class Part(StrEnum):
    """What a process does of a worker's jobs.

    The first of several attends to the process of the tip, as one that is alone does.
    """

    FIRST = "first"
    ANOTHER = "another"
    TIP = "tip"


def to_line(config: Config, *, part: Part, drain: bool) -> bytes:
    """Write settings as one line; :func:`from_line` reads it."""
    plain = {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in config
    }
    return json.dumps({"config": plain, "part": part, "drain": drain}).encode() + b"\n"


def from_line(line: bytes) -> tuple[Config, Part, bool]:
    """Read what :func:`to_line` wrote."""
    given: dict[str, Any] = json.loads(line)
    return Config(**given["config"]), Part(given["part"]), bool(given["drain"])


class Supervisor:
    """Runs one child for each of some settings.

    ``command`` starts a child; ``first`` is the part of the first one. Where ``drain``
    is set, each is to end by itself.
    """

    def __init__(
        self,
        command: Sequence[str],
        configs: Sequence[Config],
        *,
        first: Part = Part.FIRST,
        drain: bool = False,
    ) -> None:
        self.claimed = 0
        self.endings: Counter[str] = Counter()
        self._command = command
        self._configs = configs
        self._first = first
        self._drain = drain
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._stop = asyncio.Event()
        self._is_hurried = False

    def request_stop(self) -> None:
        """Let the children stop claiming and finish; called again: hand back now."""
        self._is_hurried = self._stop.is_set()
        self._stop.set()
        for child in self._children.values():
            self._order(child)

    async def run(self) -> None:
        """Keep the children running until they have drained or are told to stop."""
        keepers = [
            asyncio.create_task(self._keep(index, config))
            for index, config in enumerate(self._configs)
        ]
        stopped = asyncio.create_task(self._stop.wait())
        everybody = asyncio.gather(*keepers)
        watched: set[asyncio.Future[Any]] = {stopped, everybody}
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            grace = self._configs[0].grace.total_seconds() + _PATIENCE_SECONDS
            await asyncio.wait({everybody}, timeout=grace)
        finally:
            stopped.cancel()
            for child in self._children.values():
                child.kill()
        await everybody

    async def _keep(self, index: int, config: Config) -> None:
        failures = 0
        while not self._stop.is_set():
            started = monotonic()
            code, report = await self._run_child(index, config)
            if report is not None:
                self._count(report)
                if self._drain or self._stop.is_set():
                    return
                failures = 0
                continue
            if monotonic() - started > _HEALTHY_SECONDS:
                failures = 0
            if self._stop.is_set():
                return
            delay = delay_seconds(failures, base=_BASE_SECONDS, cap=_CAP_SECONDS)
            failures += 1
            _LOG.error(
                "%s process died (%s); another starts in %.1f s",
                self._named(index),
                _cause(code),
                delay,
            )
            await self._pause(delay)

    def _named(self, index: int) -> str:
        if self._first is Part.TIP:
            return "the tip's"
        return f"worker {index + 1} of {len(self._configs)}"

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return

    async def _run_child(
        self, index: int, config: Config
    ) -> tuple[int, Mapping[str, Any] | None]:
        child = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self._children[index] = child
        try:
            part = self._first if index == 0 else Part.ANOTHER
            self._send(child, to_line(config, part=part, drain=self._drain))
            if self._stop.is_set():
                self._order(child)
            said = await child.stdout.read() if child.stdout else b""
            return await child.wait(), _report(said)
        finally:
            del self._children[index]

    def _order(self, child: asyncio.subprocess.Process) -> None:
        self._send(child, HURRY if self._is_hurried else STOP)

    def _send(self, child: asyncio.subprocess.Process, line: bytes) -> None:
        if child.stdin is not None and not child.stdin.is_closing():
            child.stdin.write(line)

    def _count(self, report: Mapping[str, Any]) -> None:
        self.claimed += report["claimed"]
        self.endings.update(report["endings"])


def _report(said: bytes) -> Mapping[str, Any] | None:
    try:
        found = json.loads(said)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
