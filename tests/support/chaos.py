"""Attacks on real worker processes, their connections and their PostgreSQL.

What they did is in a ledger that is written with each completion; this file only
attacks and keeps a log. The seed decides what is attacked, in which order and for how
long; the operating system still has its say in what that meets.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path as FilePath
from random import Random
from typing import Any, NamedTuple, Self

import psycopg
from psycopg import sql

from tests.support import ledger
from tests.support.postgres import PrivateServer
from tests.support.program import clean_environment
from tests.support.proxy import Path

WORKERS = 4
# Of these, this many reach the server by a path that is disturbed.
BEHIND_PATH = 2
LEASE_SECONDS = 2.0

_ROUND = (
    *("kill", "stall", "terminate", "fast restart", "kill", "hold", "stall", "cut"),
    *("immediate restart", "stall", "swallow", "terminate", "kill", "stall", "hold"),
)
_REFUSED = re.compile(r"^refused (\w+) (\d+) (\S+)$", re.MULTILINE)


class Refusal(NamedTuple):
    """A claim whose holder was told that it has it no more, and by what."""

    how: str
    job_id: int
    token: str


class Victim:
    """A place for a worker process; whoever is killed in it is replaced."""

    def __init__(
        self, number: int, url: str, listen_url: str, folder: FilePath
    ) -> None:
        self._arguments = [url, listen_url, str(LEASE_SECONDS)]
        self._number = number
        self._folder = folder
        self._starts = 0
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        name = f"worker-{self._number}-{self._starts}"
        self._starts += 1
        seed = str(1000 * self._number + self._starts)
        with (
            (self._folder / f"{name}.out").open("wb") as out,
            (self._folder / f"{name}.err").open("wb") as err,
        ):
            return subprocess.Popen(
                [sys.executable, "-m", ledger.__name__, *self._arguments, seed],
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                env=clean_environment(),
                cwd=FilePath(__file__).parents[2],
            )

    def signal(self, which: signal.Signals) -> None:
        """Send a signal to whoever works here now."""
        self.process.send_signal(which)

    def kill(self) -> None:
        """Kill it without warning."""
        self.process.kill()
        self.process.wait()

    def revive(self) -> bool:
        """Start another where one has ended, as a supervisor would."""
        is_dead = self.process.poll() is not None
        if is_dead:
            self.process = self._start()
        return is_dead

    def replace(self) -> None:
        """Kill it and start another."""
        self.kill()
        self.process = self._start()


class Chaos:
    """Workers under attack; :meth:`attack` does one round, :meth:`refusals` reads."""

    def __init__(self, server: PrivateServer, folder: FilePath, *, seed: int) -> None:
        self._server = server
        self._folder = folder
        self._random = Random(seed)
        self._began = time.monotonic()
        self._log = (folder / "chaos.log").open("w", buffering=1)
        self._timers: list[threading.Timer] = []
        self._stack = ExitStack()
        self._quiet = threading.Event()
        self.path = Path(server.url)
        self.victims: list[Victim] = []
        self.accepting_at: list[float] = []
        self.say(f"seed {seed}")

    def __enter__(self) -> Self:
        self._stack.enter_context(self.path)
        for number in range(WORKERS):
            url = self.path.url if number < BEHIND_PATH else self._server.url
            victim = Victim(number, url, url, self._folder)
            self.victims.append(victim)
            self._stack.callback(victim.kill)
        self._stack.enter_context(self._ageing())
        return self

    def __exit__(self, *_: object) -> None:
        for timer in self._timers:
            timer.cancel()
        self._stack.close()
        self._log.close()

    def say(self, what: str) -> None:
        """Write a line to the log."""
        self._log.write(f"{time.monotonic() - self._began:8.2f} {what}\n")

    def attack(self, is_over: Callable[[], bool]) -> None:
        """Do every attack of a round, in an order of its own."""
        attacks = list(_ROUND)
        self._random.shuffle(attacks)
        for name in attacks:
            if is_over():
                return
            for victim in self.victims:
                if victim.revive():
                    self.say(f"{victim.process.pid} starts instead of one that ended")
            getattr(self, "_" + name.replace(" ", "_"))()
            time.sleep(self._random.uniform(0.6, 1.6))

    def settle(self) -> None:
        """End every disturbance, so that what is left can be finished."""
        for timer in self._timers:
            timer.join()
        self.path.heal()
        for victim in self.victims:
            victim.revive()

    def stop(self) -> list[int]:
        """Ask every worker to end, and return their exit codes."""
        for victim in self.victims:
            victim.signal(signal.SIGTERM)
        return [victim.process.wait(30) for victim in self.victims]

    def refusals(self) -> list[Refusal]:
        """Return every claim that a worker was told it had lost."""
        return [
            Refusal(how, int(job_id), token)
            for file in sorted(self._folder.glob("worker-*.out"))
            for how, job_id, token in _REFUSED.findall(file.read_text())
        ]

    def rows(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Execute a statement, again and again while the server is away."""
        while True:
            with (
                suppress(psycopg.OperationalError),
                psycopg.connect(
                    self._server.url, autocommit=True, application_name="chaos"
                ) as conn,
            ):
                cursor = conn.execute(sql.SQL(statement), parameters or None)
                return cursor.fetchall() if cursor.description else []
            time.sleep(0.05)

    def _victim(self) -> Victim:
        return self._random.choice(self.victims)

    def _later(self, seconds: float, what: Callable[[], object], name: str) -> None:
        def do() -> None:
            what()
            self.say(name)

        timer = threading.Timer(seconds, do)
        timer.start()
        self._timers.append(timer)

    def _kill(self) -> None:
        victim = self._victim()
        self.say(f"kill {victim.process.pid}")
        victim.replace()

    def _stall(self) -> None:
        victim = self._victim()
        process = victim.process
        seconds = LEASE_SECONDS * self._random.uniform(1.7, 2.6)
        self.say(f"stall {process.pid} for {seconds:.1f} s")
        process.send_signal(signal.SIGSTOP)
        self._later(
            seconds, lambda: process.send_signal(signal.SIGCONT), f"go {process.pid}"
        )

    def _terminate(self) -> None:
        ended = self.rows(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            " where application_name like 'indexer%%' and random() < %s",
            0.6,
        )
        self.say(f"terminated {ended[0][0]} backends")

    def _fast_restart(self) -> None:
        self._restart("fast")

    def _immediate_restart(self) -> None:
        self._restart("immediate")

    def _restart(self, mode: Any) -> None:
        self.say(f"{mode} restart")
        self._server.restart(mode)
        self.accepting_at.append(time.time())
        self.say("PostgreSQL accepts connections")

    def _hold(self) -> None:
        self._silence(swallow=False)

    def _swallow(self) -> None:
        self._silence(swallow=True)

    def _silence(self, *, swallow: bool) -> None:
        seconds = LEASE_SECONDS * self._random.uniform(0.5, 2.5)
        self.say(f"silence for {seconds:.1f} s, {swallow=}")
        self.path.silence(swallow=swallow)

        def heal() -> None:
            self.path.heal()
            if swallow:
                # Where a router forgot its connections, the next packet is answered
                # by a reset.
                self.path.cut()

        self._later(seconds, heal, "the path is healed")

    def _cut(self) -> None:
        self.say("cut")
        self.path.cut()

    @contextmanager
    def _ageing(self) -> Iterator[None]:
        """Let backoffs end soon: a run need not wait 30 to 90 s for each."""

        def age() -> None:
            while not self._quiet.wait(0.25):
                self.rows(
                    "update indexer.jobs set run_at = now() where id in (select id"
                    " from indexer.jobs where status = 'pending' and run_at > now()"
                    " for update skip locked)"
                )

        thread = threading.Thread(target=age)
        thread.start()
        try:
            yield
        finally:
            self._quiet.set()
            thread.join()
