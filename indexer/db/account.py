"""The system user whom the embedded PostgreSQL runs as: it refuses to be root."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from indexer.errors import ConfigError

SYSTEM_USER = "pgserver"


class Identity(TypedDict, total=False):
    """Arguments for :mod:`subprocess` that make a child run as another user."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True)
class Account:
    """The system user whom the server runs as."""

    uid: int
    gid: int

    @property
    def identity(self) -> Identity:
        """Return what makes a child process run as this user."""
        if self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def can_enter(self, directory: Path) -> bool:
        """Ask the system itself, so that ACLs and mounts count too."""
        return self._passes('cd -- "$1"', directory)

    def can_run(self, binaries: Path) -> bool:
        """Tell whether this user may start the programs, libraries included."""
        shared = 'cd "$("$1/pg_config" --sharedir)"'
        return self._passes(f'"$1/initdb" --version && {shared}', binaries)

    def _passes(self, test: str, path: Path) -> bool:
        result = subprocess.run(
            ["/bin/sh", "-c", test, "sh", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            check=False,
            **self.identity,
        )
        return result.returncode == 0

    def own(self, directory: Path) -> None:
        """Make a directory, if it is not there, that only this user may use.

        Raises ConfigError where somebody else put one there.
        """
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            pass
        else:
            os.chown(directory, self.uid, self.gid)
        found = directory.lstat()
        private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
        if found.st_uid != self.uid or not private:
            raise ConfigError(
                f"{directory} belongs to another user or is open to others, so no "
                "PostgreSQL is started in it; remove it"
            )


def system_account() -> Account:
    """Return the user whom root's servers run as, made at first use.

    Raises ConfigError where there is none and none can be made.
    """
    problem = ""
    # useradd fails while another one holds the lock on the password file.
    for _ in range(20):
        try:
            entry = pwd.getpwnam(SYSTEM_USER)
        except KeyError:
            problem = _add_system_user()
        else:
            return Account(entry.pw_uid, entry.pw_gid)
    raise ConfigError(
        f"PostgreSQL does not run as root, and the system user {SYSTEM_USER} could "
        f"not be made ({problem}); run this as an ordinary user, or name a server "
        "with --database-url"
    )


def _add_system_user() -> str:
    command = ["useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent"]
    shell = ["--shell", "/usr/sbin/nologin", SYSTEM_USER]
    try:
        result = subprocess.run(
            [*command, *shell], capture_output=True, text=True, check=False
        )
    except OSError as error:
        return str(error)
    return result.stderr.strip()
