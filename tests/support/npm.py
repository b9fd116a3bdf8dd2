"""Packages from npm, installed once for all test runs of a machine."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import platformdirs

from tests.support.parts import missing


def npm_package(package: str, version: str) -> Path:
    """Return the folder with ``node_modules`` that has the package."""
    name = f"{package.rpartition('/')[2]}-{version}"
    folder = platformdirs.user_cache_path("indexer-tests") / name
    if not folder.is_dir():
        _install(folder, f"{package}@{version}")
    return folder


def _install(folder: Path, wanted: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        missing(wanted, "install npm (Node.js), from which the tests install it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=folder.parent))
    flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    result = subprocess.run(
        [npm, "install", "--prefix", draft, *flags, wanted],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        shutil.rmtree(draft)
        missing(wanted, f"npm could not install it: {result.stderr.strip()}")
    try:
        draft.rename(folder)
    except OSError:
        # Another test run was quicker.
        shutil.rmtree(draft)
