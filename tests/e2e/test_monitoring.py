"""A real Prometheus scrapes real processes: every panel has data, alerts are raised."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
import yaml

from indexer.devnode.server import DevnodeConfig, running_devnode
from tests.support.program import Program, run, until, value
from tests.support.prometheus import DEPLOY, Prometheus, prometheus

_METRIC = re.compile(r"\bindexer_[a-z0-9_]+")


class Deployment(NamedTuple):
    """A worker, a follower and an exporter, scraped."""

    prometheus: Prometheus
    ports: dict[str, int]
    programs: dict[str, Program]
    url: str


def port_of(program: Program) -> int:
    return int(program.expect(r"metrics on port (\d+)")[1])


@pytest.fixture
def deployment(database_url: str, tmp_path: Path) -> Iterator[Deployment]:
    config = DevnodeConfig(profile="mixed", height=1000, block_time=0.5)
    with ExitStack() as stack:
        node = stack.enter_context(running_devnode(config))
        env = {"INDEXER_DATABASE_URL": database_url, "INDEXER_RPC_URL": node.url}
        planned = run("plan", "--from", "0", "--to", "800", "--range-size", "100",
                      env=env)  # fmt: skip
        assert planned.returncode == 0, planned.stderr
        with psycopg.connect(database_url, autocommit=True) as conn:
            # One fails at once, one is tried again, one is of nobody's kind.
            conn.execute(
                "insert into indexer.jobs (kind, payload) values "
                "('index_blocks', '{\"from\": 9, \"to\": 3}'), "
                "('index_events', '{\"from\": 790000, \"to\": 790001}'), "
                "('mail', '{}')"
            )
        programs = {
            role: stack.enter_context(Program(role, *arguments, env=env))
            for role, arguments in (
                ("work", ["--metrics-port", "0", "--concurrency", "2"]),
                ("follow", ["--metrics-port", "0"]),
                ("exporter", ["--port", "0", "--host", "127.0.0.1"]),
            )
        }
        ports = {f"indexer-{role}": port_of(each) for role, each in programs.items()}
        server = stack.enter_context(prometheus(tmp_path, ports))
        yield Deployment(server, ports, programs, database_url)


def get(port: int, path: str) -> tuple[int, str, str]:
    """Return status, content type and text."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as reply:
            return reply.status, reply.headers["Content-Type"], reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def is_ready(port: int) -> bool:
    return get(port, "/ready")[0] == 200


def panels() -> list[tuple[str, str]]:
    """Every query of every dashboard, with all chains chosen."""
    found = []
    for path in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):
                expression = target["expr"].replace("$schema", ".*")
                found.append((f"{path.stem}: {panel['title']}", expression))
    return found


def test_every_panel_has_data_every_rule_its_metrics_and_a_pin_is_raised(
    deployment: Deployment,
) -> None:
    server = deployment.prometheus
    with psycopg.connect(deployment.url, application_name="lunch") as forgotten:
        forgotten.execute("set transaction isolation level repeatable read")
        forgotten.execute("select count(*) from indexer.blocks where hash = 'hunter2'")
        pid = str(forgotten.info.backend_pid)

        until(
            lambda: len(server.query("up")) == 3 and not server.problems(),
            what="all are scraped",
        )
        until(lambda: server.query("indexer_database_vacuum_pinned_seconds"),
              what="the pin is a metric")  # fmt: skip
        empty: list[tuple[str, str]] = panels()

        def all_have_data() -> bool:
            empty[:] = [each for each in empty if not server.query(each[1])]
            return not empty

        try:
            until(all_have_data, what="every panel has data")
        except AssertionError:
            pytest.fail(f"no data for {empty}")

        known = set(server.ask("label/__name__/values"))
        rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())
        # Where nothing is replicated, there is nothing to be seen of it.
        elsewhere = {
            "indexer_database_replication_lag_seconds",
            "indexer_database_replication_lag_bytes",
            "indexer_database_slot_retained_bytes",
        }
        for group in rules["groups"]:
            for rule in group["rules"]:
                used = set(_METRIC.findall(rule["expr"]))
                assert used <= known | elsewhere, rule["alert"]

        raised: list[dict[str, Any]] = []

        def is_raised() -> bool:
            raised[:] = [
                each
                for each in server.firing("IndexerVacuumPinned")
                if each["labels"]["name"] == pid
            ]
            return bool(raised)

        until(is_raised, what="the alert is raised")
        [alert] = raised
        assert "hash = '…'" in alert["labels"]["query"]
        assert f"session {pid} of" in alert["annotations"]["summary"]
        status: dict[str, Any] = json.loads(
            run("status", "--json", "--database-url", deployment.url).stdout
        )
        assert status["database"]["vacuum_pins"][0]["name"] == pid
    until(lambda: server.firing("IndexerFailedJobs"), what="the failed job is raised")


def test_health_and_readiness_say_what_is_and_no_label_is_without_bounds(
    deployment: Deployment,
) -> None:
    ports, programs = deployment.ports, deployment.programs
    until(
        lambda: value(deployment.url, "select count(*) from indexer.blocks"),
        what="some blocks are stored",
    )

    for job, port in ports.items():
        try:
            until(partial(is_ready, port), what=f"{job} is ready")
        except AssertionError as error:
            raise AssertionError(f"{error}: {get(port, '/ready')}") from None
    for job, port in ports.items():
        status, kind, text = get(port, "/metrics")
        assert status == 200, job
        assert kind.startswith("text/plain; version=") and "charset=utf-8" in kind
        assert get(port, "/health")[0] == 200
        for line in text.splitlines():
            # No job, no block and no hash ever becomes a label.
            assert not re.search(r'"(0x)?[0-9a-f]{40,}"', line), line
    worker = ports["indexer-work"]
    until(lambda: "indexer_listener_up 1.0" in get(worker, "/metrics")[2],
          what="the listener is up")  # fmt: skip
    wanted = {
        "indexer_jobs_claimed_total",
        'indexer_jobs_ended_total{ending="completed",kind="index_blocks"}',
        "indexer_chunk_seconds_count",
        "indexer_heartbeat_age_seconds",
        'indexer_rows_written_total{table="blocks"}',
        'indexer_written_bytes_total{table="transactions"}',
        "indexer_inflight_bytes",
        'method="eth_getBlockByNumber",outcome="ok"',
    }

    def all_counted() -> bool:
        text = get(worker, "/metrics")[2]
        return all(name in text for name in wanted)

    until(all_counted, what="the work is counted")
    assert "_created" not in get(worker, "/metrics")[2]
    programs["work"].signal(signal.SIGTERM)
    assert programs["work"].wait() == 143
