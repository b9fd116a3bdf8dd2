from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from indexer.db import placement
from indexer.db.embedded import EmbeddedServer, describe, embedded_server
from indexer.errors import ConfigError, DatabaseUnavailable

REPOSITORY = Path(__file__).resolve().parents[2]
# A command as users run it: it says where the server is, and works until told to end.
COMMAND = """
import sys
from pathlib import Path
from indexer.db.embedded import embedded_server
with embedded_server(Path(sys.argv[1])) as url:
    print(url, flush=True)
    sys.stdin.read()
"""


class Command:
    """Another process that uses the server, in a process group of its own."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, str(home)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    def url(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line, "the command ended before it had a server"
        return line

    def leave(self) -> None:
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0

    def signal(self, which: signal.Signals) -> None:
        """Send a signal to the whole process group, as a terminal does."""
        os.killpg(self.process.pid, which)
        self.process.communicate(timeout=60)

    def discard(self) -> None:
        self.process.kill()
        self.process.communicate()


class Commands:
    """Starts commands on one directory, and ends them with the test."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.started: list[Command] = []

    def __call__(self) -> Command:
        command = Command(self.home)
        self.started.append(command)
        return command


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="indexer-embedded-"))
    folder.chmod(0o711)
    yield folder / "postgres"
    for process in server_processes(folder):
        process.kill()
    shutil.rmtree(folder)


@pytest.fixture
def command(home: Path) -> Iterator[Commands]:
    commands = Commands(home)
    yield commands
    for each in commands.started:
        each.discard()


def server_processes(folder: Path) -> list[psutil.Process]:
    """The live processes of servers below a folder, as the system tells them."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if (
                process.status() != psutil.STATUS_ZOMBIE
                and process.name().startswith("postgres")
                and process.cwd().startswith(f"{folder}/")
            ):
                found.append(process)
    return found


def alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def postmaster(url: str) -> psutil.Process:
    with psycopg.connect(url) as conn:
        pid = conn.info.backend_pid
        parent = psutil.Process(pid).parent()
    assert parent is not None
    return parent


def write(url: str, word: str) -> None:
    with psycopg.connect(url) as conn:
        conn.execute("create table if not exists words (word text)")
        conn.execute("insert into words values (%s)", [word])


def words(url: str) -> list[str]:
    with psycopg.connect(url) as conn:
        return [row[0] for row in conn.execute("select word from words order by 1")]


def test_two_commands_share_one_server(command: Commands) -> None:
    first, second = command(), command()
    urls = first.url(), second.url()
    assert urls[0] == urls[1]
    write(urls[0], "seen by both")
    assert words(urls[1]) == ["seen by both"]
    assert postmaster(urls[0]) == postmaster(urls[1])


def test_many_commands_starting_at_the_same_moment_get_the_same_server(
    command: Commands,
) -> None:
    commands = [command() for _ in range(6)]
    urls = [each.url() for each in commands]
    assert len(set(urls)) == 1
    assert len({postmaster(url).pid for url in urls}) == 1
    for each in commands:
        each.leave()
    assert server_processes(command.home) == []


def test_the_last_command_to_leave_stops_the_server(command: Commands) -> None:
    first, second = command(), command()
    first.url()
    url = second.url()
    first.leave()
    write(url, "still there")
    second.leave()
    assert server_processes(command.home) == []
    assert not (command.home / "data" / "postmaster.pid").exists()


def test_data_outlives_the_server(command: Commands, home: Path) -> None:
    first = command()
    write(first.url(), "kept")
    first.leave()
    with embedded_server(home) as url:
        assert words(url) == ["kept"]


def test_a_server_whose_users_were_all_killed_is_taken_over_and_stopped(
    command: Commands, home: Path
) -> None:
    first, second = command(), command()
    url = first.url()
    second.url()
    write(url, "kept")
    server = postmaster(url)
    first.signal(signal.SIGKILL)
    second.signal(signal.SIGKILL)
    assert alive(server)
    with embedded_server(home) as url:
        assert postmaster(url) == server
        assert words(url) == ["kept"]
    assert server_processes(home) == []


def test_after_kill_9_of_everything_the_next_command_starts_again(
    command: Commands, home: Path
) -> None:
    first = command()
    url = first.url()
    write(url, "kept")
    first.signal(signal.SIGKILL)
    for process in server_processes(home):
        process.kill()
    assert (home / "data" / "postmaster.pid").exists()
    with embedded_server(home) as url:
        assert words(url) == ["kept"]
    assert server_processes(home) == []


def test_backends_that_outlived_their_postmaster_do_not_stop_the_next_start(
    command: Commands, home: Path
) -> None:
    first = command()
    url = first.url()
    server = postmaster(url)
    with psycopg.connect(url) as conn:
        backend = psutil.Process(conn.info.backend_pid)
        # Stopped, it cannot notice that its postmaster died.
        backend.suspend()
        first.signal(signal.SIGKILL)
        server.kill()
        with embedded_server(home) as url:
            assert not alive(backend)
            assert postmaster(url) != server


def test_a_pid_file_that_names_another_program_is_not_believed(home: Path) -> None:
    with EmbeddedServer(home) as server:
        write(server.url, "kept")
        server.stop("kill")
        recorded = home / "data" / "postmaster.pid"
        lines = recorded.read_text().splitlines()
        recorded.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
        assert server.pid is None
        assert words(server.start()) == ["kept"]
        assert server.pid not in (None, os.getpid())


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_one_command_does_not_take_the_server_from_another(
    command: Commands, which: signal.Signals
) -> None:
    first = command()
    url = first.url()
    server = postmaster(url)
    second = command()
    second.url()
    with psycopg.connect(url) as conn:
        first.signal(which)
        assert first.process.returncode != 0
        assert conn.execute("select 1").fetchone() == (1,)
    assert postmaster(url) == server
    second.leave()
    assert not alive(server)


def test_ctrl_c_of_the_only_command_stops_the_server(command: Commands) -> None:
    only = command()
    only.url()
    only.signal(signal.SIGINT)
    assert server_processes(command.home) == []


def test_restart_keeps_the_data_the_users_and_the_address(home: Path) -> None:
    with EmbeddedServer(home) as server, EmbeddedServer(home) as other:
        write(server.url, "kept")
        before = postmaster(server.url)
        assert server.restart() == other.url
        assert words(other.url) == ["kept"]
        assert postmaster(other.url) != before
        server.close()
        assert words(other.url) == ["kept"]
    assert server_processes(home) == []


@pytest.mark.parametrize("mode", ["fast", "immediate", "kill"])
def test_a_stopped_server_starts_again(home: Path, mode: str) -> None:
    with EmbeddedServer(home) as server:
        write(server.url, "kept")
        server.stop(mode)  # type: ignore[arg-type]
        assert server_processes(home) == []
        assert server.pid is None
        assert words(server.start()) == ["kept"]


def test_a_directory_deleted_under_a_server_is_begun_anew(home: Path) -> None:
    with EmbeddedServer(home) as server:
        write(server.url, "gone with the directory")
        old = postmaster(server.url)
        shutil.rmtree(home)
        with EmbeddedServer(home) as fresh:
            assert not alive(old)
            write(fresh.url, "new")
            assert words(fresh.url) == ["new"]


def test_a_set_up_that_was_cut_off_is_done_again(home: Path) -> None:
    home.mkdir(mode=0o711)
    (home / "new-1").mkdir()
    (home / "new-1" / "PG_VERSION").write_text("18\n")
    with embedded_server(home) as url:
        write(url, "whole")
    assert list(home.glob("new-*")) == []


def test_nobody_else_can_reach_the_server(home: Path) -> None:
    with EmbeddedServer(home) as server, psycopg.connect(server.url) as conn:
        assert conn.execute("show listen_addresses").fetchone() == ("",)
        directory = Path(conn.info.host)
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert stat.S_IMODE((server.directory / "data").stat().st_mode) == 0o700


def test_a_path_too_long_for_a_socket_gets_a_short_one(home: Path) -> None:
    deep = home.parent / ("d" * 120) / "postgres"
    with EmbeddedServer(deep) as server:
        write(server.url, "reached")
        with psycopg.connect(server.url) as conn:
            sockets = Path(conn.info.host)
        assert sockets.parent == Path("/tmp")
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    assert not sockets.exists()


def test_a_path_with_spaces_and_quotes_works(home: Path) -> None:
    with embedded_server(home.parent / "it's, a path" / "postgres") as url:
        write(url, "reached")


def test_the_environment_of_libpq_does_not_lead_elsewhere(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGHOST", "nowhere.invalid")
    monkeypatch.setenv("PGDATABASE", "nothing")
    monkeypatch.setenv("PGUSER", "nobody")
    with embedded_server(home) as url:
        write(url, "reached")


def test_a_directory_that_cannot_be_made_is_refused(home: Path) -> None:
    home.write_text("a file where the directory should be")
    with pytest.raises(ConfigError, match=r"cannot use .*--database-url"):
        EmbeddedServer(home / "postgres").start()


def test_a_path_longer_than_postgresql_takes_is_refused(home: Path) -> None:
    path = home.joinpath(*["d" * 200] * 6)
    with pytest.raises(ConfigError, match="longer than 900 bytes"):
        EmbeddedServer(path).start()


def test_data_of_another_version_is_refused(home: Path) -> None:
    data = home / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("14\n")
    with pytest.raises(ConfigError, match="is of PostgreSQL 14"):
        EmbeddedServer(home).start()


def test_a_missing_package_names_the_extra(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'indexer\[embedded\]'"):
        EmbeddedServer(home).start()


def test_a_server_that_does_not_start_says_why_and_leaves_nothing(home: Path) -> None:
    with EmbeddedServer(home):
        pass
    with (home / "data" / "postgresql.conf").open("a") as conf:
        conf.write("shared_buffers = '9 potatoes'\n")
    with pytest.raises(DatabaseUnavailable, match=r"configuration file .* errors"):
        EmbeddedServer(home).start()
    assert server_processes(home) == []
    with (home / "data" / "postgresql.conf").open("a") as conf:
        conf.write("shared_buffers = '128MB'\n")
    with embedded_server(home) as url:
        write(url, "healed")


def test_one_line_tells_version_and_place(home: Path) -> None:
    line = describe(home)
    assert line.startswith("embedded PostgreSQL 18.")
    assert line.endswith(f"data in {home}")


root_only = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root's servers run as another user"
)


@root_only
def test_a_directory_closed_to_the_servers_user_is_left_closed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "SHARED", home.parent / "shared")
    closed = home.parent / "root"
    closed.mkdir(mode=0o700)
    with EmbeddedServer(closed / "postgres") as server:
        write(server.url, "kept")
        assert server.directory.parent == home.parent / "shared"
        assert f"data in {server.directory} (" in server.describe()
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    with EmbeddedServer(closed / "postgres") as again:
        assert again.directory == server.directory
        assert words(again.url) == ["kept"]


@root_only
def test_programs_closed_to_the_servers_user_are_copied_once(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = home.parent / "shared"
    monkeypatch.setattr(placement, "SHARED", shared)
    closed = home.parent / "environment"
    closed.mkdir(mode=0o700)
    installed = placement.packaged_binaries(None).parent
    package = installed.parent
    for folder in (installed, package.parent / f"{package.name}.libs"):
        copy = closed / folder.relative_to(package.parent)
        shutil.copytree(folder, copy, symlinks=True)
    binaries = closed / package.name / installed.name / "bin"
    for _ in range(2):
        with EmbeddedServer(home, binaries=binaries) as server:
            write(server.url, "reached")
    assert len(list(shared.iterdir())) == 1
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
