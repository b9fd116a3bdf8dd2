"""Locks on files, which the kernel takes back when their holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from indexer.errors import ConfigError


def hold_shared(path: Path) -> int:
    """Hold a file together with others until the descriptor is closed.

    Never waits long: nobody holds such a file alone for more than an instant.
    """
    descriptor = _open(path)
    try:
        _lock(descriptor, fcntl.LOCK_SH, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def alone(path: Path) -> Iterator[bool]:
    """Yield whether nobody else holds a file, and if so hold it meanwhile."""
    descriptor = _open(path)
    try:
        try:
            _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, path)
            # Not where the file was deleted, and perhaps made anew, before that.
            free = os.path.samestat(os.fstat(descriptor), path.stat())
        except (BlockingIOError, FileNotFoundError):
            free = False
        yield free
    finally:
        os.close(descriptor)


def _lock(descriptor: int, how: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        raise
    except OSError as error:
        raise ConfigError(
            f"the file system of {path} has no locks ({error.strerror}), which the "
            "embedded PostgreSQL needs; name a server with --database-url"
        ) from error


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"cannot open {path}: {error.strerror}") from error
