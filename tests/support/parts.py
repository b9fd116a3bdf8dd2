"""Parts of the test bench that a machine may lack: skip there, fail in CI."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest


def missing(part: str, remedy: str) -> NoReturn:
    """Skip the test, or fail it where ``CI`` is set: a gap there would hide."""
    sentence = f"{part} is not available; {remedy}"
    if os.environ.get("CI"):
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def debian_package(package: str, program: str) -> Path:
    """Return a program's path, installing Debian's package where we may.

    ``program`` is a name to look for on the path, or an absolute path.
    """
    found = shutil.which(program)
    problem = "not installed"
    if found is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        problem = _install(package)
        found = shutil.which(program)
    if found is None:
        missing(f"{program} ({problem})", f"install Debian's package {package}")
    return Path(found)


def _install(package: str) -> str:
    # Tests run in several processes, and dpkg serves one at a time.
    lock = Path(tempfile.gettempdir()) / "indexer-tests-apt.lock"
    with lock.open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        return _run_apt(package)


def _run_apt(package: str) -> str:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # A package's service must not start on the developer's machine.
    environment["RUNLEVEL"] = "1"
    flags = ["-y", "--no-install-recommends"]
    problem = ""
    # Without the lists of packages, as in a fresh container, it is not found.
    for command in (["install", *flags, package], ["update"]) * 2:
        result = subprocess.run(
            ["apt-get", *command], env=environment, capture_output=True, text=True
        )
        if command[0] == "install":
            if result.returncode == 0:
                return ""
            problem = result.stderr.strip()
    return problem
