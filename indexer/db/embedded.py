"""The embedded PostgreSQL: one server a directory, shared by every command.

Whoever uses it holds a shared lock on the file ``users``, which the kernel takes
back at any death, so there is no list of users that a ``kill -9`` could leave
stale, nor one that a reused process id could fool. Starting and stopping happen
under an exclusive lock on the file ``lock``; who leaves and finds nobody else on
``users`` stops the server.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import platformdirs

from indexer.db import filelock, placement
from indexer.errors import ConfigError, DatabaseUnavailable

if TYPE_CHECKING:
    from indexer.db.postmaster import Postmaster, StopMode

# For a laptop that does other things too: a backfill fits in, a browser as well.
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "256MB",
    "maintenance_work_mem": "256MB",
    "work_mem": "16MB",
    # Fewer checkpoints, so fewer full pages in the WAL of a backfill.
    "max_wal_size": "2GB",
    "wal_compression": "pglz",
    # A statement over all heights locks every partition and its indexes.
    "max_locks_per_transaction": "256",
    "random_page_cost": "1.1",
    # Compiling costs more than it gains in statements of milliseconds.
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}
# Covers somebody else's crash recovery or last checkpoint.
_LOCK_TIMEOUT_S = 360.0
_POLL_S = 0.01


def default_directory() -> Path:
    """Return where the embedded server lies when nothing else is said."""
    return platformdirs.user_data_path("indexer") / "postgres"


class EmbeddedServer:
    """One process's hold on the server of a directory.

    ``settings`` go on top of :data:`SETTINGS` when the cluster is made;
    ``binaries`` names another installation's programs. Every call blocks.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        binaries: Path | None = None,
    ) -> None:
        self.home = (data_dir or default_directory()).resolve()
        self._settings = {**SETTINGS, **(settings or {})}
        self._binaries = binaries
        self._postmaster: Postmaster | None = None
        self._users: int | None = None
        self._url: str | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The URI to connect to, once started."""
        if self._url is None:
            raise DatabaseUnavailable("the embedded PostgreSQL was not started")
        return self._url

    @property
    def directory(self) -> Path:
        """The directory in which the server's files lie."""
        return self._place().data.parent

    @property
    def pid(self) -> int | None:
        """The id of the server's main process, ``None`` where none runs."""
        found = self._place().running()
        return None if found is None else found.pid

    def describe(self) -> str:
        """Return one line that names the server's version and its place."""
        server = self._place()
        line = f"embedded PostgreSQL {placement.version(server.binaries)}, data in "
        if self.directory == self.home:
            return line + str(self.home)
        return (
            f"{line}{self.directory} (PostgreSQL does not run as root, and its own "
            f"user cannot enter {self.home})"
        )

    def start(self) -> str:
        """Use the server, starting it if it does not run, and return its URI.

        Raises ConfigError where the directory or the package does not allow it,
        DatabaseUnavailable where the server does not come up.
        """
        with self._locked():
            if self._users is None:
                self._users = filelock.hold_shared(self.home / "users")
            try:
                return self._ensure_running()
            except BaseException:
                self._leave()
                raise

    def close(self) -> None:
        """Stop using the server; the last one to leave stops it."""
        if self._users is not None:
            with self._locked():
                self._leave()

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server now, whoever else uses it.

        ``immediate`` leaves it to recover at its next start, as a crash does;
        ``kill`` is a crash.
        """
        with self._locked():
            self._placed().stop(mode)

    def restart(self, mode: StopMode = "fast") -> str:
        """Stop the server and start it again, under the users it has."""
        with self._locked():
            self._placed().stop(mode)
            return self._ensure_running()

    def _place(self) -> Postmaster:
        if self._postmaster is None:
            with self._locked():
                return self._placed()
        return self._postmaster

    def _placed(self) -> Postmaster:
        if self._postmaster is None:
            account = placement.server_account(self.home)
            directory = placement.server_directory(self.home, account).resolve()
            data = directory / "data"
            binaries = self._binaries or placement.packaged_binaries(
                placement.major_version(data)
            )
            # It needs psutil, which only the extra brings.
            from indexer.db.postmaster import Postmaster

            self._postmaster = Postmaster(
                data=data,
                run=directory / "run",
                binaries=placement.reachable_binaries(binaries, account),
                account=account,
            )
        return self._postmaster

    def _ensure_running(self) -> str:
        server = self._placed()
        found = server.settle()
        if found is None:
            server.account.own(server.run)
            self._check_version(server)
            if not server.data.is_dir():
                server.initialise(self._settings)
            server.start()
            found = server.settle()
        if found is None:
            raise DatabaseUnavailable(
                f"the embedded PostgreSQL in {server.data} ended as soon as it had "
                f"started; see {server.log}"
            )
        self._url = server.url(found)
        return self._url

    def _check_version(self, server: Postmaster) -> None:
        theirs = placement.major_version(server.data)
        ours = int(placement.version(server.binaries).split(".")[0])
        if theirs is not None and theirs != ours:
            raise ConfigError(
                f"the data in {server.data} is of PostgreSQL {theirs}, but the "
                f"installed one is {ours}; upgrade it with pg_upgrade, or move the "
                "directory away to begin anew"
            )

    def _leave(self) -> None:
        if self._users is None:
            return
        # Closed, not unlocked: a forked child that shares the file still counts.
        os.close(self._users)
        self._users = None
        with filelock.alone(self.home / "users") as last:
            if last and self._postmaster is not None:
                self._postmaster.stop()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        placement.make_home(self.home)
        path = self.home / "lock"
        deadline = time.monotonic() + _LOCK_TIMEOUT_S
        while True:
            with filelock.alone(path) as mine:
                if mine:
                    yield
                    return
            if time.monotonic() > deadline:
                raise DatabaseUnavailable(
                    f"another process has been starting or stopping the embedded "
                    f"PostgreSQL in {self.home} for {_LOCK_TIMEOUT_S:.0f} seconds"
                )
            time.sleep(_POLL_S)


@contextmanager
def embedded_server(data_dir: Path | None = None) -> Iterator[str]:
    """Use the embedded server of a directory, and yield its URI."""
    with EmbeddedServer(data_dir) as server:
        yield server.url


def describe(data_dir: Path | None = None) -> str:
    """Return one line that names the embedded server's version and its place."""
    return EmbeddedServer(data_dir).describe()
