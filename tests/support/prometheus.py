"""A real Prometheus: Debian's, with our own rules and dashboards."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.parts import debian_package
from tests.support.program import until

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
_PATIENCE_SECONDS = 60.0
_LISTENING = re.compile(r"address=127\.0\.0\.1:(\d+)|addr=127\.0\.0\.1:(\d+)")


class Prometheus:
    """A running server's HTTP interface."""

    def __init__(self, url: str) -> None:
        self.url = url

    def is_ready(self) -> bool:
        """Whether it answers queries."""
        try:
            urllib.request.urlopen(f"{self.url}/-/ready").close()
        except urllib.error.HTTPError as error:
            error.close()
            return False
        return True

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}") as reply:
            found = json.load(reply)
        assert found["status"] == "success", found
        return found["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series that an expression gives now."""
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found

    def problems(self) -> list[str]:
        """Return why targets could not be scraped."""
        targets = self.ask("targets")["activeTargets"]
        return [each["lastError"] for each in targets if each["lastError"]]

    def firing(self, alert: str) -> list[dict[str, Any]]:
        """Return the instances of an alert that are raised now."""
        return [
            each
            for each in self.ask("alerts")["alerts"]
            if each["labels"]["alertname"] == alert and each["state"] == "firing"
        ]


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, int]) -> Iterator[Prometheus]:
    """Run a server that scrapes ports by job, every second, under our rules."""
    program = debian_package("prometheus", "prometheus")
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(DEPLOY / "prometheus" / "rules.yml")]
    assert {each["job_name"] for each in config["scrape_configs"]} == set(targets)
    config["scrape_configs"] = [
        {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
        for job, port in targets.items()
    ]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    log = folder / "prometheus.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, f"--config.file={folder / 'prometheus.yml'}",
             f"--storage.tsdb.path={folder / 'data'}",
             "--web.listen-address=127.0.0.1:0"],
            stdout=output,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        server = Prometheus(f"http://127.0.0.1:{_port(process, log)}")
        until(server.is_ready, what="Prometheus is ready")
        yield server
    finally:
        process.kill()
        process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        for found in _LISTENING.finditer(log.read_text()):
            port = found[1] or found[2]
            if port != "0":
                return port
        time.sleep(0.02)
    raise RuntimeError(f"Prometheus did not start: {log.read_text()}")
