"""``indexer work`` on several processes: the one that watches, and its children."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from indexer.cli.nodes import open_endpoints
from indexer.cli.progress import drain_progress
from indexer.cli.runtime import Stopped, end_within, open_database, stop_on_signals
from indexer.config import Config
from indexer.jobs.running import WorkerStats
from indexer.log import configure
from indexer.services.compatibility import schema_watched
from indexer.services.identity import check_identity
from indexer.services.supervise import HURRY, Part, Supervisor, from_line, shares
from indexer.services.tiplane import tip_config

# Started by ourselves only; what follows comes on the standard input.
CHILD_FLAG = "--supervised"
_COMMAND = (sys.executable, "-m", "indexer", "work", CHILD_FLAG)


async def supervise(
    config: Config, url: str, drain: bool
) -> tuple[Supervisor, Stopped]:
    """Run the children until they are done; what is wrong for all is said first."""
    config = config.model_copy(update={"database_url": url})
    async with open_database(config, url, application="work") as database:
        async with open_endpoints(config) as endpoints:
            await check_identity(database, endpoints)
        supervisor = Supervisor(_COMMAND, shares(config), drain=drain)
        with stop_on_signals(
            supervisor.request_stop, end_within=end_within(config)
        ) as stopped:
            async with (
                schema_watched(database, supervisor.request_stop),
                drain_progress(database, shown=drain),
            ):
                await supervisor.run()
    return supervisor, stopped


def tip_process(config: Config, url: str) -> Supervisor:
    """Return the process for the tip's jobs, to be run beside a worker."""
    config = tip_config(config).model_copy(update={"database_url": url})
    return Supervisor(_COMMAND, [config], first=Part.TIP)


async def read_orders() -> tuple[Config, Part, bool, Orders]:
    """Read a child's settings, and return them with the orders to come."""
    reader = asyncio.StreamReader(limit=2**20)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    config, part, drain = from_line(await reader.readline())
    configure(log_format=config.log_format, verbose=config.verbose)
    return config, part, drain, Orders(reader)


class Orders:
    """What a child is told: by its supervisor, or by a signal to it alone."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._is_stopped = False
        self._is_hurried = False

    @contextmanager
    def obey(self, request_stop: Callable[[], None]) -> Iterator[Stopped]:
        """Heed orders while the body runs.

        A signal is heard once: service managers send it to a supervisor and to its
        children alike, and it must not count twice.
        """
        loop = asyncio.get_running_loop()
        # Ctrl-C goes to the whole group; what it means is the supervisor's to say.
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        loop.add_signal_handler(signal.SIGTERM, self._stop, request_stop)
        listening = asyncio.create_task(self._listen(request_stop))
        try:
            yield Stopped()
        finally:
            listening.cancel()
            for each in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(each)

    async def _listen(self, request_stop: Callable[[], None]) -> None:
        while line := await self._reader.readline():
            self._stop(request_stop)
            if line == HURRY:
                self._hurry(request_stop)
        # Nobody is left to wait for us.
        self._stop(request_stop)
        self._hurry(request_stop)

    def _stop(self, request_stop: Callable[[], None]) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            request_stop()

    def _hurry(self, request_stop: Callable[[], None]) -> None:
        if not self._is_hurried:
            self._is_hurried = True
            request_stop()


def report(stats: WorkerStats) -> None:
    """Tell the supervisor how the work ended."""
    said = {"claimed": stats.claimed, "endings": stats.named_endings()}
    with contextlib.suppress(BrokenPipeError):
        click.echo(json.dumps(said))
