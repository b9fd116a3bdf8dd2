from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import psycopg
import pytest
import yaml

from indexer.cli import cli
from tests.support.parts import debian_package
from tests.support.program import clean_environment, value

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
KUBERNETES = list(
    yaml.safe_load_all((DEPLOY / "kubernetes" / "indexer.yaml").read_text())
)
DOCKERFILE = DEPLOY / "Dockerfile"
RULES = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command line of ours that the files start."""
    for name, service in COMPOSE["services"].items():
        if "build" in service:
            before = service.get("entrypoint", ["indexer"])[1:]
            yield f"compose {name}", [*before, *service["command"]]
    for thing in KUBERNETES:
        pod = thing["spec"].get("template", {}).get("spec", {})
        for container in pod.get("containers", []):
            yield f"kubernetes {container['name']}", container["args"]


@pytest.mark.parametrize(("where", "line"), [*commands()], ids=str)
def test_every_command_that_is_deployed_exists_with_its_options(
    where: str, line: list[str]
) -> None:
    name, *arguments = line
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, f"{where}: there is no indexer {name}"
    if arguments == ["--help"]:
        return
    command.make_context(name, list(arguments))


def test_compose_refers_only_to_what_is_there_and_has_no_secret() -> None:
    services, volumes = COMPOSE["services"], COMPOSE["volumes"]
    for name, service in services.items():
        for needed in service.get("depends_on", {}):
            assert needed in services, name
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            assert source in volumes or (ROOT / source).exists(), mount
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name} is open to the network"
        once = name in ("migrate", "plan")
        assert once or "healthcheck" in service, f"{name} has no health check"
    text = (ROOT / "docker-compose.yml").read_text()
    for variable in re.findall(r"\$\{(\w+(?:PASSWORD|URL)[^}]*)\}", text):
        assert ":?" in variable, f"{variable} has a default"
    assert len(re.findall(r"PASSWORD:\?", text)) >= 3


def test_docker_compose_accepts_the_file(tmp_path: Path) -> None:
    # To read the file it needs no engine, but the settings where it looks for them.
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    compose = debian_package("docker-compose", "docker-compose")
    settings = "POSTGRES_PASSWORD=a\nGRAFANA_PASSWORD=b\nINDEXER_RPC_URL=http://node\n"
    for written, accepted in (("", False), (settings, True)):
        (tmp_path / ".env").write_text(written)
        result = subprocess.run(
            [compose, "config"],
            cwd=tmp_path,
            env=clean_environment(),
            capture_output=True,
            text=True,
        )
        assert (result.returncode == 0) is accepted, result.stderr
    services = yaml.safe_load(result.stdout)["services"]
    assert services["work"]["command"][0] == "work"
    url = services["follow"]["environment"]["INDEXER_DATABASE_URL"]
    assert url == "postgresql://indexer:a@postgres:5432/indexer"


def test_kubernetes_probes_and_grace_fit_what_is_served(database_url: str) -> None:
    kinds = {thing["kind"] for thing in KUBERNETES}
    assert {"Job", "Deployment", "ScaledObject"} <= kinds
    for thing in KUBERNETES:
        if thing["kind"] != "Deployment":
            continue
        [container] = thing["spec"]["template"]["spec"]["containers"]
        assert container["livenessProbe"]["httpGet"]["path"] == "/health"
        assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
        port = str(container["ports"][0]["containerPort"])
        assert port in container["args"]
    [scaled] = [thing for thing in KUBERNETES if thing["kind"] == "ScaledObject"]
    query = scaled["spec"]["triggers"][0]["metadata"]["query"]
    with psycopg.connect(database_url) as conn:
        conn.execute(
            "insert into indexer.jobs (kind, payload) "
            "select 'index_blocks', '{}' from generate_series(1, 400)"
        )
        row = conn.execute(query).fetchone()
        assert row is not None and row[0] == 300
        conn.rollback()
    assert value(database_url, query) == 0


def test_the_rules_pass_promtool_and_each_is_raised_and_silent_in_a_test() -> None:
    promtool = debian_package("prometheus", "promtool")
    folder = DEPLOY / "prometheus"
    for arguments in (
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "rules.yml"],
        ["test", "rules", "rules_test.yml"],
    ):
        result = subprocess.run(
            [promtool, *arguments], cwd=folder, capture_output=True, text=True
        )
        assert result.returncode == 0, result.stdout + result.stderr
    names = [rule["alert"] for group in RULES["groups"] for rule in group["rules"]]
    tests = yaml.safe_load((folder / "rules_test.yml").read_text())["tests"]
    raised: set[str] = set()
    silent: set[str] = set()
    for each in tests:
        [expected] = each["alert_rule_test"]
        which = raised if expected["exp_alerts"] else silent
        which.add(expected["alertname"])
    assert raised == silent == set(names)
    for group in RULES["groups"]:
        for rule in group["rules"]:
            assert rule["annotations"]["summary"] and rule["annotations"]["remedy"]


def test_the_dashboards_are_provisioned_and_use_the_source_that_is() -> None:
    provisioning = DEPLOY / "grafana" / "provisioning"
    [source] = yaml.safe_load(
        (provisioning / "datasources" / "prometheus.yml").read_text()
    )["datasources"]
    [provider] = yaml.safe_load(
        (provisioning / "dashboards" / "indexer.yml").read_text()
    )["providers"]
    mounts = COMPOSE["services"]["grafana"]["volumes"]
    assert any(provider["options"]["path"] in mount for mount in mounts)
    boards: list[dict[str, Any]] = [
        json.loads(path.read_text())
        for path in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
    ]
    assert len({board["uid"] for board in boards}) == len(boards) == 3
    for board in boards:
        ids = [panel["id"] for panel in board["panels"]]
        assert len(set(ids)) == len(ids)
        for panel in board["panels"]:
            for target in panel.get("targets", []):
                assert target["datasource"]["uid"] == source["uid"]


def test_the_dockerfile_installs_and_starts_the_program_in_an_empty_environment(
    tmp_path: Path,
) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    # The user it makes is recorded and not made: this machine keeps its own.
    shim = home / "bin" / "useradd"
    shim.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/useradd\n')
    shim.chmod(0o755)
    env = clean_environment({"PATH": f"{home / 'bin'}:{os.environ['PATH']}"})
    folder, entry, default = tmp_path, [""], [""]
    for instruction, text in instructions():
        if instruction == "WORKDIR":
            folder = tmp_path / text.lstrip("/")
            folder.mkdir(parents=True, exist_ok=True)
        elif instruction == "COPY":
            *sources, target = text.split()
            for source in sources:
                copy(ROOT / source, folder / target)
        elif instruction == "RUN":
            done = subprocess.run(
                text, shell=True, cwd=folder, env=env, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
        elif instruction == "ENTRYPOINT":
            entry = json.loads(text)
        elif instruction == "CMD":
            default = json.loads(text)
    assert "indexer" in (tmp_path / "useradd").read_text()
    program = shutil.which(entry[0], path=env["PATH"])
    assert program == str(home / "bin" / "indexer")
    started = subprocess.run(
        [program, *entry[1:], *default],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
    )
    assert started.returncode == 0, started.stderr
    assert "Index an EVM chain" in started.stdout
    # The page's files come along.
    found = list((home / "lib").glob("python*/site-packages/indexer/**/page/main.js"))
    assert len(found) == 1


def instructions() -> Iterator[tuple[str, str]]:
    for line in DOCKERFILE.read_text().replace("\\\n", " ").splitlines():
        if line and not line.startswith("#"):
            instruction, _, text = line.partition(" ")
            yield instruction, text


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        target = target / source.name if target.is_dir() else target
        shutil.copy(source, target)
