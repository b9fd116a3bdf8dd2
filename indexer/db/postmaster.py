"""One PostgreSQL server process: make its cluster, start it, find it, stop it.

Nothing here knows who uses the server; the caller holds the lock that keeps two
processes from doing any of this at once.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote

from indexer.db import processes
from indexer.db.account import Account
from indexer.errors import DatabaseUnavailable

StopMode = Literal["fast", "immediate", "kill"]
_SIGNALS: dict[StopMode, signal.Signals] = {
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
    "kill": signal.SIGKILL,
}
USER = "postgres"
PORT = 5432
# Crash recovery replays up to max_wal_size of WAL, minutes on a slow disk.
START_TIMEOUT_S = 300
# A fast stop writes a checkpoint of all shared buffers first.
STOP_TIMEOUT_S = 60.0
_POLL_S = 0.01
# sun_path has 108 bytes on Linux and 104 on macOS, the final NUL among them.
_SOCKET_PATH_BYTES = 103
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


class Running(NamedTuple):
    """What ``postmaster.pid`` says about a server."""

    pid: int
    socket_directory: str
    port: int
    status: str


class Postmaster:
    """The server of one data directory, whoever started it."""

    def __init__(
        self, *, data: Path, run: Path, binaries: Path, account: Account
    ) -> None:
        self.data = data
        self.run = run
        self.binaries = binaries
        self.account = account
        self.log = run / "postgres.log"

    def initialise(self, settings: Mapping[str, str]) -> None:
        """Make a new cluster, whole or not at all.

        ``settings`` are appended to ``postgresql.conf``, which is the user's after
        that. Raises DatabaseUnavailable where initdb fails.
        """
        for leftover in self.data.parent.glob("new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        draft = self.data.parent / f"new-{os.getpid()}"
        self.account.own(draft)
        # Peers come through a socket that only this user may open: see start().
        options = ["--auth=trust", "--encoding=UTF8", "--no-locale", "-U", USER]
        if settings.get("fsync") == "off":
            options.append("--no-sync")
        result = self._call("initdb", *options, "-D", str(draft))
        if result.returncode != 0:
            shutil.rmtree(draft, ignore_errors=True)
            raise DatabaseUnavailable(
                f"the embedded PostgreSQL could not be set up in {self.data}: "
                f"{_last_line(result.stdout)}"
            )
        with (draft / "postgresql.conf").open("a", encoding="utf-8") as conf:
            conf.write("\n# Set by indexer when this cluster was made.\n")
            conf.writelines(f"{key} = '{value}'\n" for key, value in settings.items())
        draft.rename(self.data)

    def start(self) -> None:
        """Start the server and return when it accepts connections.

        It gets a session of its own, so that a Ctrl-C in the terminal of whoever
        started it does not take it from the others. Raises DatabaseUnavailable.
        """
        self._sweep()
        self._rotate_log()
        offset = self.log.stat().st_size if self.log.exists() else 0
        sockets = _socket_setting(self._socket_directory())
        result = self._call(
            "pg_ctl",
            *(
                "-D",
                str(self.data),
                "-l",
                str(self.log),
                "-o",
                f"-k {shlex.quote(sockets)}",
            ),
            *("-t", str(START_TIMEOUT_S), "-w", "start"),
        )
        if result.returncode != 0:
            reason = self._fatal_line(offset) or _last_line(result.stdout)
            raise DatabaseUnavailable(
                f"the embedded PostgreSQL in {self.data} did not start: {reason} "
                f"(all of it in {self.log})"
            )

    def running(self) -> Running | None:
        """Return the live server of this data directory, ``None`` without one."""
        found = self._recorded()
        if found is None:
            return None
        # A server in another container shows no process here, but it answers.
        alive = processes.of_server(self.data, found.pid) is not None or _answers(found)
        return found if alive else None

    def settle(self) -> Running | None:
        """Wait while a server is starting or stopping, then return a ready one."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while (found := self.running()) is not None and found.status != "ready":
            if time.monotonic() > deadline:
                raise DatabaseUnavailable(
                    f"the embedded PostgreSQL in {self.data} has been "
                    f"{found.status or 'starting'} for {START_TIMEOUT_S} seconds; "
                    f"see {self.log}"
                )
            time.sleep(_POLL_S)
        return found

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server and return when none of its processes is left."""
        found = self.running()
        if found is not None:
            process = processes.of_server(self.data, found.pid)
            if process is None:
                return
            processes.send(process, _SIGNALS[mode])
            if not processes.wait_gone([process], STOP_TIMEOUT_S):
                processes.send(process, signal.SIGQUIT)
            if found.socket_directory != str(self.run):
                with suppress(OSError):
                    Path(found.socket_directory).rmdir()
        processes.end_all(self.data)

    def url(self, found: Running) -> str:
        """Return the connection URI of a running server."""
        host = quote(found.socket_directory, safe="")
        return f"postgresql://{USER}@/postgres?host={host}&port={found.port}"

    def _call(self, program: str, *args: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [str(self.binaries / program), *args],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd="/",
                env=_ENVIRONMENT,
                start_new_session=True,
                check=False,
                **self.account.identity,
            )
        except OSError as error:
            raise DatabaseUnavailable(
                f"cannot run {self.binaries / program}: {error.strerror or error}"
            ) from error

    def _recorded(self) -> Running | None:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            pid = int(lines[0])
        except (OSError, ValueError, IndexError):
            return None
        lines += [""] * (8 - len(lines))
        port = int(lines[3]) if lines[3].strip().isdigit() else PORT
        return Running(pid, lines[4].strip(), port, lines[7].strip())

    def _sweep(self) -> None:
        """Clear away what a killed server left: backends, a pid file, sockets.

        Also a server whose directory was deleted under it: it would take the new
        server's socket away when it notices.
        """
        processes.end_all(self.data)
        if (found := self._recorded()) is not None and processes.exists(found.pid):
            # The id now belongs to another program, or to a zombie that nobody
            # collects; PostgreSQL would take it for a live server and not start.
            (self.data / "postmaster.pid").unlink(missing_ok=True)
        for stale in self._socket_directory().glob(".s.PGSQL.*"):
            stale.unlink()

    def _socket_directory(self) -> Path:
        length = len(os.fsencode(self.run)) + len(f"/.s.PGSQL.{PORT}")
        # libpq takes a comma in a host for a list of hosts.
        if length <= _SOCKET_PATH_BYTES and "," not in str(self.run):
            return self.run
        mark = f"{self.data.parent.stat().st_ino:x}"
        short = Path("/tmp") / f"indexer-{self.account.uid}-{mark}"
        self.account.own(short)
        return short

    def _rotate_log(self) -> None:
        if self.log.exists() and self.log.stat().st_size > 10_000_000:
            self.log.replace(self.log.with_suffix(".log.1"))

    def _fatal_line(self, offset: int) -> str | None:
        if not self.log.exists():
            return None
        written = self.log.read_bytes()[offset:].decode(errors="replace")
        fatal = [line for line in written.splitlines() if "FATAL:" in line]
        return fatal[0].partition("FATAL:")[2].strip() if fatal else None


def _answers(found: Running) -> bool:
    path = f"{found.socket_directory}/.s.PGSQL.{found.port}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(1.0)
        try:
            client.connect(path)
        except OSError:
            return False
    return True


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason was given"


def _socket_setting(directory: Path) -> str:
    # The setting is a list of names, quoted as SQL identifiers are.
    return '"' + str(directory).replace('"', '""') + '"'
