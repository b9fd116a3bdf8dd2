"""The recorded chain of every fork: served, indexed by the program, proven whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from indexer.devnode.recorded import RecordedChain
from indexer.devnode.server import Devnode, running_devnode
from tests.support.fixtures import needs_fixtures, result
from tests.support.program import run
from tests.support.reader import differences
from tests.support.rlpchain import as_json, receipts_json, rlp_chain

CHAIN_ID = 3503995874084926
HEIGHTS = range(0, 55)


@pytest.fixture
def node() -> Iterator[Devnode]:
    """A node of that chain, its genesis as a client has shown it."""
    pair = result("execution-apis/eth_getBlockByNumber.get-genesis.json")
    blocks: list[tuple[Any, list[Any]]] = [(pair["response"]["result"], [])]
    blocks += [(as_json(data), receipts_json(data)) for data in rlp_chain()]
    chain = RecordedChain(blocks, chain_id=CHAIN_ID, finality_depth=0)
    with running_devnode(chain=chain) as served:
        yield served


@needs_fixtures
def test_c3_the_recorded_chain_of_every_fork_is_indexed_and_proven_whole(
    node: Devnode, database_url: str
) -> None:
    where = ("--database-url", database_url, "--rpc-url", node.url)
    planned = run("plan", "--from", "0", "--to", str(HEIGHTS.stop), *where)
    assert planned.returncode == 0, planned.stderr
    worked = run("work", "--drain", "--verify", "strict", *where)
    assert worked.returncode == 0, worked.stderr
    proven = run("verify", "--processes", "1", "--json", *where)
    assert proven.returncode == 0, proven.stdout
    report = json.loads(proven.stdout)
    whole = {"looked_at": 55, "proven": 55, "unprovable": 0, "wrong": 0, "waiting": 0}
    assert report["blocks"] == whole
    assert report["events"] == whole
    assert (report["faults"], report["not_provable"]) == ([], [])
    assert differences(node.url, database_url, HEIGHTS) == []
