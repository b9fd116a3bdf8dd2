"""What the README tells somebody who runs this on many machines, done as it says."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from tests.support import postgres
from tests.support.machines import LOOPBACK, NETWORK, Machine, machines
from tests.support.parts import debian_package
from tests.support.program import Program, run, until, value, watching

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
# As much as is planned at a time: more jobs than anybody can hold.
HEIGHTS = 1000
# Nobody gets it from this node.
POISONED = 1234


class Site(NamedTuple):
    """One database and one node, and machines that reach them over a network."""

    machines: list[Machine]
    node: Program
    ports: tuple[int, int]
    admin: str
    binaries: Path

    def settings(self, machine: Machine) -> dict[str, str]:
        """The same two settings, as that machine reaches the same things."""
        database, node = self.ports
        return {
            "INDEXER_DATABASE_URL": (
                f"postgresql://postgres@{machine.gateway}:{database}/chain"
            ),
            "INDEXER_RPC_URL": f"http://{machine.gateway}:{node}",
        }

    def working(self, machine: Machine) -> Program:
        line = (
            "indexer work --concurrency 2 --lease 5s --poll-interval 1s --max-errors 1"
        )
        return Program(
            *from_readme(line), env=self.settings(machine), prefix=machine.prefix
        )


@pytest.fixture
def site() -> Iterator[Site]:
    with ExitStack() as stack:
        found = stack.enter_context(machines(2))
        addresses = ",".join(each.gateway for each in found)
        # Debian's, for its pg_dump and pg_restore.
        binaries = debian_package(
            "postgresql-15", "/usr/lib/postgresql/15/bin/postgres"
        ).parent
        server = stack.enter_context(
            postgres.private_server(binaries, listen_addresses=addresses)
        )
        port = admit(server.url)
        fault = f"null_block:from_height={POISONED},to_height={POISONED}"
        node = stack.enter_context(devnode("--height", "100000", "--fault", fault))
        yield Site(found, node, (port, port_of(node)), server.url, binaries)


def admit(admin: str) -> int:
    """Let the machines in, and make the database; return the server's port."""
    with psycopg.connect(admin, autocommit=True) as conn:
        said = conn.execute("show hba_file").fetchone()
        assert said is not None
        with Path(said[0]).open("a") as rules:
            rules.write(
                f"host all all {NETWORK} trust\nhost all all {LOOPBACK} trust\n"
            )
        conn.execute("select pg_reload_conf()")
        conn.execute("create database chain")
        return conn.info.port


def devnode(*arguments: str) -> Program:
    return Program("devnode", "--host", "0.0.0.0", "--port", "0", *arguments)


def port_of(node: Program) -> int:
    return int(node.expect(r"http://0\.0\.0\.0:(\d+)")[1])


def from_readme(line: str) -> list[str]:
    """Return a command line's arguments; the README tells of each of them."""
    program, *arguments = shlex.split(line)
    assert program == "indexer"
    assert f"`indexer {arguments[0]}" in README, line
    for each in arguments:
        assert not each.startswith("--") or each in README, f"{each} of {line}"
    return arguments


def command(line: str, env: Mapping[str, str]) -> str:
    """Run a command line; it has to succeed."""
    done = run(*from_readme(line), env=env)
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    return done.stdout


def status(env: Mapping[str, str]) -> Any:
    return json.loads(command("indexer status --json", env))


def holding(env: Mapping[str, str]) -> dict[int, list[int]]:
    """Return which jobs each worker that holds any does, by its pid."""
    return {
        each["pid"]: [held["job"] for held in each["holds"]]
        for each in status(env)["workers"]
        if each["holds"]
    }


def all_hold_jobs(site: Site, env: Mapping[str, str], workers: list[Program]) -> None:
    """Plan some more while the node stands still, until everybody holds some."""
    pids = {each.process.pid for each in workers}
    until(
        lambda: pids <= {each["pid"] for each in status(env)["workers"]},
        what=f"{len(workers)} workers are there",
    )
    site.node.signal(signal.SIGSTOP)
    first = status(env)["progress"]["planned_blocks"]
    # Without a node nothing has to be asked of it.
    alone = {"INDEXER_DATABASE_URL": env["INDEXER_DATABASE_URL"]}
    command(
        f"indexer plan --from {first} --to {first + HEIGHTS} --range-size 50", alone
    )
    until(lambda: holding(env).keys() == pids, what="every worker holds jobs")


def backup(site: Site, env: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Back the chain up and restore it as another database, by the README's lines."""
    lines = re.findall(r"^(?:pg_dump|pg_restore) .*$", README, re.MULTILINE)
    assert len(lines) == 2
    another = postgres.in_database(env["INDEXER_DATABASE_URL"], "another")
    with watching(site.admin) as conn:
        conn.execute("create database another")
    for line in lines:
        done = subprocess.run(
            line.replace("postgresql://user@host/another", another),
            shell=True,
            env={**env, "PATH": f"{site.binaries}:/usr/bin:/bin"},
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    return {**env, "INDEXER_DATABASE_URL": another}


def job(env: Mapping[str, str], job_id: int) -> Any:
    return json.loads(command(f"indexer jobs show {job_id} --json", env))


def taken_up_elsewhere(env: Mapping[str, str], job_id: int, killed: str) -> None:
    """Wait until a job that a killed worker held was done by another."""
    until(lambda: job(env, job_id)["lost_leases"] == 1, what="the lease has been lost")
    with watching(env["INDEXER_DATABASE_URL"]) as conn:
        # The wait of 30 to 90 s is over.
        conn.execute(
            "update indexer.jobs set run_at = now() where id = %s and run_at > now()",
            [job_id],
        )
    until(lambda: job(env, job_id)["status"] == "done", what="it is done elsewhere")
    assert job(env, job_id)["locked_by"] != killed


def retried_once_mended(site: Site, env: Mapping[str, str]) -> None:
    """Do as status says about a block that the node gave nobody."""
    until(lambda: status(env)["failed"], what="the block that nobody gets has failed")
    [failed] = status(env)["failed"]
    assert failed["jobs"] == 1
    assert "has no block" in failed["reason"], failed
    mended = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "devnode_clearFaults"})
    url = f"http://127.0.0.1:{site.ports[1]}"
    request = urllib.request.Request(
        url, mended.encode(), {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request).close()
    assert "indexer jobs retry" in failed["retry"]
    command(failed["retry"], env)
    assert status(env)["failed"] == []


def second_chain(env: Mapping[str, str]) -> None:
    """Index another chain into a schema of its own, in the same database."""
    with devnode("--chain-id", "2", "--height", "300") as node:
        base = {
            **env,
            "INDEXER_RPC_URL": f"http://127.0.0.1:{port_of(node)}",
            "INDEXER_SCHEMA": "base",
        }
        command("indexer migrate", base)
        command("indexer plan --from 0 --to 200", base)
        command("indexer work --drain", base)
        command("indexer verify", base)
    # The first chain's node is refused there.
    mixed = run("work", "--drain", env={**env, "INDEXER_SCHEMA": "base"})
    assert mixed.returncode == 1
    assert "chain" in mixed.stderr
    assert value(env["INDEXER_DATABASE_URL"], "select count(*) from base.blocks") == 200


def is_whole(env: Mapping[str, str]) -> bool:
    found = status(env)
    left: int = found["queue"]["pending"] + found["queue"]["running"]
    return not left and (
        found["progress"]["stored_blocks"] == found["progress"]["planned_blocks"]
    )


def takes_up(env: Mapping[str, str], worker: Program) -> None:
    """Wait until a restored chain is whole, what ran at its backup included."""
    url = env["INDEXER_DATABASE_URL"]
    expired = "select count(*) from indexer.jobs where locked_until < now()"
    until(lambda: value(url, expired) == 0, what="the leases of then are taken back")
    with watching(url) as conn:
        conn.execute("update indexer.jobs set run_at = now() where status = 'pending'")
    until(lambda: is_whole(env), what="the restored chain is whole")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 143
    command("indexer verify", env)


def test_the_readme_leads_over_two_machines_four_workers_a_second_chain_and_a_restore(
    site: Site, tmp_path: Path
) -> None:
    env = site.settings(site.machines[0])
    command("indexer migrate", env)
    with ExitStack() as stack:
        workers = [
            stack.enter_context(site.working(machine)) for machine in site.machines
        ]
        all_hold_jobs(site, env, workers)
        site.node.signal(signal.SIGCONT)
        workers += [
            stack.enter_context(site.working(machine)) for machine in site.machines
        ]
        all_hold_jobs(site, env, workers)
        killed = workers[0].process.pid
        [name] = [
            each["name"] for each in status(env)["workers"] if each["pid"] == killed
        ]
        held = holding(env)[killed]
        workers[0].kill()
        restored = backup(site, env, tmp_path)
        site.node.signal(signal.SIGCONT)
        command("indexer verify", restored)
        # It was in the middle of things.
        assert status(restored)["queue"]["running"] > 0
        line = "indexer work --lease 5s --poll-interval 1s"
        successor = stack.enter_context(Program(*from_readme(line), env=restored))
        for each in held:
            taken_up_elsewhere(env, each, name)
        second_chain(env)
        retried_once_mended(site, env)
        until(lambda: is_whole(env), what="everything is stored")
        for worker in workers[1:]:
            worker.signal(signal.SIGTERM)
        assert [worker.wait() for worker in workers[1:]] == [143] * 3
        command("indexer verify", env)
        takes_up(restored, successor)
