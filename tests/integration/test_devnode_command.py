"""``indexer devnode`` takes faults as plain values."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest

from indexer.devnode.faults import KINDS
from indexer.devnode.server import Devnode, DevnodeConfig
from tests.support.devnode import Client, call

_COMMAND = [sys.executable, "-m", "indexer", "devnode", "--port", "0"]


@contextmanager
def _running(*options: str) -> Iterator[str]:
    command = [*_COMMAND, "--height", "100", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def _result(url: str, method: str) -> Any:
    body = json.dumps(call(1, method)).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body)) as reply:
        return json.load(reply)["result"]


def test_faults_are_in_force_from_the_start() -> None:
    with _running("--fault", "lag:count=25", "--fault", "other_chain_id") as url:
        assert _result(url, "eth_blockNumber") == hex(75)


def test_faults_are_drawn_for_a_share_of_the_requests() -> None:
    options = ("--fault", "null", "--fault-rate", "0.5", "--fault-seed", "3")
    with _running(*options) as url:
        first = [_result(url, "eth_chainId") for _ in range(40)]
    assert {*first} == {None, "0x539"}
    with _running(*options) as url:
        assert [_result(url, "eth_chainId") for _ in range(40)] == first


def test_all_kinds_are_listed() -> None:
    command = [*_COMMAND, "--list-faults"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = {line.split()[0]: line for line in shown.splitlines()}
    assert lines.keys() == KINDS.keys()
    assert all(lines[name].endswith(kind.doc) for name, kind in KINDS.items())


@pytest.mark.parametrize("fault", ["magic", "lag:size=1", "lag:count=far"])
def test_a_fault_that_is_none_is_bad_usage(fault: str) -> None:
    command = [*_COMMAND, "--fault", fault]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert fault.partition(":")[0] in done.stderr


async def test_a_huge_block_goes_over_both_transports() -> None:
    config = DevnodeConfig(
        profile="sparse", height=9, huge_height=4, huge_bytes=9_000_000
    )
    ask = call(1, "eth_getBlockByNumber", "0x4", True)
    async with Devnode(config) as node, aiohttp.ClientSession() as session:
        _, body, _ = await Client(node.url, session).post(ask)
        assert 8_500_000 < len(body) < 9_500_000
        async with session.ws_connect(node.ws_url, max_msg_size=0) as socket:
            await socket.send_json(ask)
            assert (await socket.receive_str()).encode() == body
