"""Foundry's anvil, from npm: a real node that nobody here wrote."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.npm import npm_package
from tests.support.parts import missing

VERSION = "1.7.1"
_START_TIMEOUT_S = 30.0
_LISTENING = re.compile(r"Listening on (127\.0\.0\.1:\d+)")


class AnvilError(Exception):
    """The node answered with a JSON-RPC error object."""


class Anvil:
    """A running node, and a client that shares no code with ours."""

    def __init__(self, process: subprocess.Popen[bytes], address: str, ipc: Path):
        self.process = process
        self.url = f"http://{address}"
        self.ws_url = f"ws://{address}"
        self.ipc_path = ipc

    def rpc(self, method: str, *params: Any) -> Any:
        """Return the result of a call as JSON gives it; raises AnvilError."""
        reply = self._post(_request(1, method, params))
        if "error" in reply:
            raise AnvilError(f"{method}: {reply['error']}")
        return reply["result"]

    def batch(self, method: str, calls: list[list[Any]]) -> list[Any]:
        """Return the results of one method called with each list of parameters."""
        requests = [_request(index, method, each) for index, each in enumerate(calls)]
        replies = {reply["id"]: reply for reply in self._post(requests)}
        return [replies[index]["result"] for index in range(len(calls))]

    def mine(self, blocks: int = 1) -> int:
        """Mine blocks one by one, and return the height of the last."""
        for _ in range(blocks):
            self.rpc("evm_mine")
        return int(self.rpc("eth_blockNumber"), 16)

    def kill(self) -> None:
        """End the node as a crash would."""
        self.process.kill()
        self.process.wait()

    def _post(self, body: Any) -> Any:
        request = urllib.request.Request(
            self.url,
            data=json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)


def _request(number: int, method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}


@contextmanager
def run_anvil(*arguments: str, port: int = 0) -> Iterator[Anvil]:
    """Run a node until the block ends; port 0 lets it choose a free one."""
    program = anvil_program()
    with tempfile.TemporaryDirectory(prefix="anvil-") as folder:
        ipc, output = Path(folder) / "anvil.ipc", Path(folder) / "output"
        command = [str(program), "--host", "127.0.0.1", "--port", str(port)]
        with output.open("wb") as log:
            process = subprocess.Popen(
                [*command, "--ipc", str(ipc), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # It keeps states and a configuration in the home directory.
                env={**os.environ, "HOME": folder},
            )
        try:
            yield Anvil(process, _address(process, output), ipc)
        finally:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[bytes], output: Path) -> str:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        found = _LISTENING.search(output.read_text(errors="replace"))
        if found is not None:
            return found[1]
        time.sleep(0.01)
    raise RuntimeError(f"anvil did not start: {output.read_text(errors='replace')}")


def anvil_program() -> Path:
    """Return the node's program, installing the package at first use."""
    folder = npm_package("@foundry-rs/anvil", VERSION)
    programs = list(folder.glob("node_modules/@foundry-rs/anvil-*/bin/anvil"))
    if not programs:
        missing("anvil", f"npm has no program for this machine in {folder}")
    return programs[0]
