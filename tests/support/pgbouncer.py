"""PgBouncer in transaction mode, as many run it in front of PostgreSQL."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from indexer.db.account import system_account
from tests.support.parts import debian_package

_START_TIMEOUT_S = 20.0


@contextmanager
def run_pgbouncer(
    url: str, *, pool_size: int = 5, every: bool = False
) -> Iterator[str]:
    """Yield a URL that reaches the database of ``url`` through a pooler.

    With ``every`` so does any other database of the server, by its own name. More
    clients than ``pool_size`` share that many server connections, so that session
    state of one is seen by another.
    """
    program = debian_package("pgbouncer", "pgbouncer")
    target = conninfo_to_dict(url)
    with tempfile.TemporaryDirectory(prefix="pgbouncer-") as folder:
        config, log = Path(folder) / "pgbouncer.ini", Path(folder) / "log"
        port = _free_port()
        config.write_text(_configuration(target, port, pool_size, every=every))
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(program), *_as_whom(), str(config)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            name = target["dbname"] if every else "pooled"
            pooled = f"postgresql://{target['user']}@127.0.0.1:{port}/{name}"
            _wait_for(pooled, process, log)
            yield pooled
        finally:
            process.kill()
            process.wait()


def _configuration(
    target: dict[str, str | int | None], port: int, size: int, *, every: bool
) -> str:
    server = " ".join(
        f"{key}={target[key]}"
        for key in ("host", "port", "dbname", "user", "password")
        if target.get(key) and not (every and key == "dbname")
    )
    name = "*" if every else "pooled"
    return f"""
[databases]
{name} = {server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
"""


def _as_whom() -> list[str]:
    # It refuses to be root too, and root's test server has a socket for its own
    # user only.
    if os.geteuid() != 0:
        return []
    return ["--user", pwd.getpwuid(system_account().uid).pw_name]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"pgbouncer did not start: {log.read_text(errors='replace')}")
