"""PostgreSQL for tests: a real server, never the user's own data.

In a container where Docker answers, else the embedded server in a temporary
directory. Debian's version 15 is there for the tests that read plans, since the
embedded version 18 can scan an index in ways that 15 cannot.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg
from psycopg import sql

from indexer.db import filelock
from indexer.db.embedded import EmbeddedServer
from indexer.db.migrate import migrate
from indexer.db.postmaster import StopMode
from tests.support.parts import debian_package

SCHEMA = "indexer"
# Commits wait for the WAL as in production, only the disk is left out.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "128MB",
    "max_connections": "200",
}
_PREFIX = "indexer-tests-"
_ABANDONED_AFTER_S = 600


class PrivateServer:
    """A server that a test may stop, kill and restart."""

    def __init__(
        self, home: Path, binaries: Path | None = None, **settings: object
    ) -> None:
        chosen = {**SETTINGS, **{key: str(each) for key, each in settings.items()}}
        self.embedded = EmbeddedServer(home, settings=chosen, binaries=binaries)

    @property
    def url(self) -> str:
        return self.embedded.url

    @property
    def pid(self) -> int | None:
        return self.embedded.pid

    def start(self) -> str:
        return self.embedded.start()

    def stop(self, mode: StopMode = "fast") -> None:
        self.embedded.stop(mode)

    def restart(self, mode: StopMode = "fast") -> str:
        return self.embedded.restart(mode)

    def kill(self) -> None:
        """End every process of the server as a power cut would."""
        pid = self.embedded.pid
        if pid is None:
            return
        postmaster = psutil.Process(pid)
        for process in (postmaster, *postmaster.children(recursive=True)):
            process.kill()
        self.embedded.stop("kill")


@contextmanager
def private_server(
    binaries: Path | None = None, **settings: object
) -> Iterator[PrivateServer]:
    """Run a server in a temporary directory, and leave nothing behind."""
    home = Path(tempfile.mkdtemp(prefix=_PREFIX))
    # The system user who runs it for root has to pass through.
    home.chmod(0o711)
    server = PrivateServer(home / "postgres", binaries, **settings)
    try:
        server.start()
        yield server
    finally:
        _remove(server.embedded)
        shutil.rmtree(home)


def _remove(server: EmbeddedServer) -> None:
    server.stop("immediate")
    server.close()
    # For root behind a closed directory it is not the one that was asked for.
    shutil.rmtree(server.directory)
    shutil.rmtree(server.home, ignore_errors=True)


@contextmanager
def session_server() -> Iterator[str]:
    """Run the session's server, and yield the URI of its maintenance database."""
    collect_abandoned()
    if _docker_answers():
        with _container() as url:
            yield url
    else:
        with private_server() as server:
            yield server.url


@contextmanager
def version_15() -> Iterator[str]:
    """Run Debian's PostgreSQL 15, and yield the URI of its maintenance database."""
    program = debian_package("postgresql-15", "/usr/lib/postgresql/15/bin/postgres")
    with private_server(program.parent) as server:
        yield server.url


def collect_abandoned() -> None:
    """Stop and remove what test runs left that were killed."""
    for home in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/postgres"):
        users = home / "users"
        try:
            old = time.time() - users.stat().st_mtime > _ABANDONED_AFTER_S
            with filelock.alone(users) as free:
                if old and free:
                    _remove(EmbeddedServer(home))
                    home.parent.rmdir()
        except OSError:
            continue


def _docker_answers() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    return subprocess.run([docker, "info"], capture_output=True).returncode == 0


@contextmanager
def _container() -> Iterator[str]:
    from testcontainers.core.container import DockerContainer

    options = " ".join(f"-c {key}={value}" for key, value in SETTINGS.items())
    container = (
        DockerContainer("postgres:18")
        .with_env("POSTGRES_HOST_AUTH_METHOD", "trust")
        .with_exposed_ports(5432)
        .with_command(f"postgres {options}")
    )
    with container:
        host = container.get_container_host_ip()
        port = container.get_exposed_port(5432)
        url = f"postgresql://postgres@{host}:{port}/postgres"
        _wait_for(url)
        yield url


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def in_database(url: str, name: str) -> str:
    """Return a server's URI for another of its databases."""
    return urlsplit(url)._replace(path=f"/{name}").geturl()


@contextmanager
def new_database(server: str, template: str | None = None) -> Iterator[str]:
    """Create a database, a clone where a template is named, and drop it after."""
    name = f"test_{uuid.uuid4().hex[:16]}"
    source = sql.Identifier(template or "template1")
    create = sql.SQL("create database {} template {}")
    drop = sql.SQL("drop database if exists {} with (force)")
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(create.format(sql.Identifier(name), source))
    try:
        yield in_database(server, name)
    finally:
        with psycopg.connect(server, autocommit=True) as conn:
            conn.execute(drop.format(sql.Identifier(name)))


@contextmanager
def migrated_template(server: str) -> Iterator[str]:
    """Create a migrated database, and yield its name to clone it by."""
    with new_database(server) as url:
        asyncio.run(migrate(url, schema=SCHEMA))
        yield urlsplit(url).path.removeprefix("/")
