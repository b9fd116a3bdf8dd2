"""The wheel, in an empty environment of its own."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from tests.support.program import clean_environment, value

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_carries_its_sql_and_migrates_from_an_empty_environment(
    tmp_path: Path, empty_database_url: str
) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps",
         "--wheel-dir", str(tmp_path), str(ROOT)],
        check=True,
        cwd=tmp_path,
    )  # fmt: skip
    [wheel] = tmp_path.glob("indexer-*.whl")
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    subprocess.run([home / "bin" / "pip", "install", "--quiet", str(wheel)], check=True)
    result = subprocess.run(
        [home / "bin" / "indexer", "migrate", "--database-url", empty_database_url],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=clean_environment(),
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "0001_initial" in result.stdout
    assert value(empty_database_url, "select count(*) from indexer.jobs") == 0
