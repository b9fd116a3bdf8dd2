"""Run a service from a command: settings, logs, database, signals, exit codes."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any

import click

from indexer.config import Config, load_config
from indexer.db.connection import Database
from indexer.db.embedded import EmbeddedServer
from indexer.db.migrate import check_schema, migrate
from indexer.log import configure

log = logging.getLogger("indexer.cli")


def settings(**given: Any) -> Config:  # noqa: ANN401 - click's values as they come
    """Read the settings and set up the log lines."""
    config = load_config(**given)
    configure(log_format=config.log_format, verbose=config.verbose)
    return config


@contextmanager
def database_url(config: Config) -> Iterator[str]:
    """Give the URL to use; start the embedded server where none is set.

    A new embedded database is migrated by itself: nobody else uses it.
    """
    if config.database_url is not None:
        yield config.database_url
        return
    with EmbeddedServer() as server:
        click.echo(server.describe(), err=True)
        asyncio.run(migrate(server.url, schema=config.db_schema))
        yield server.url


@asynccontextmanager
async def open_database(
    config: Config,
    url: str,
    *,
    application: str,
    size: int = 4,
    reply_timeout: timedelta | None = None,
) -> AsyncIterator[Database]:
    """Open the pool and refuse a schema that does not fit.

    ``reply_timeout`` None: whoever waits can press Ctrl-C, and may ask for much.
    """
    database = Database(
        url,
        schema=config.db_schema,
        size=size,
        application=f"indexer {application}",
        prepared=False if config.prepared_statements == "off" else None,
        reply_timeout=reply_timeout,
    )
    async with database:
        async with database.connection() as conn:
            await check_schema(conn)
        yield database


# What ends in order takes much less than this beyond its grace: the last statements,
# and a server of our own that stops.
_MARGIN = timedelta(seconds=30)


def end_within(config: Config) -> timedelta:
    """Return how long after a signal the process may live at most."""
    return config.grace + _MARGIN


class Stopped:
    """Which signal asked for the end, if one did."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    @property
    def exit_code(self) -> int:
        """0, or 128 and the number of the signal."""
        return 0 if self.signal is None else 128 + self.signal


@contextmanager
def stop_on_signals(
    request_stop: Callable[[], None], *, end_within: timedelta
) -> Iterator[Stopped]:
    """Call ``request_stop`` on each SIGTERM and SIGINT while the service runs.

    ``end_within`` is how long after the first the process lives at most, whatever it
    waits for by then: a database or a node that is silent must not keep it.
    """
    loop = asyncio.get_running_loop()
    stopped = Stopped()

    def on_signal(which: signal.Signals) -> None:
        if stopped.signal is None:
            _end_hard_after(end_within, 128 + which)
        stopped.signal = which
        log.info("%s: stopping; once more to hand back at once", which.name)
        request_stop()

    handled = (signal.SIGTERM, signal.SIGINT)
    for each in handled:
        loop.add_signal_handler(each, on_signal, each)
    try:
        yield stopped
    finally:
        for each in handled:
            loop.remove_signal_handler(each)


def _end_hard_after(patience: timedelta, code: int) -> None:
    """End the process when it still lives then; leases end by themselves."""

    def end() -> None:
        log.error(
            "still not ended %.0f s after it was told to; ending at once. What it held "
            "is taken back when its leases are over",
            patience.total_seconds(),
        )
        os._exit(code)

    timer = threading.Timer(patience.total_seconds(), end)
    # Not to be waited for by a process that ends in order.
    timer.daemon = True
    timer.start()
