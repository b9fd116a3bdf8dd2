"""Plan, work and follow against a real node, compared field by field."""

from __future__ import annotations

import json

from tests.support.anvil import Anvil
from tests.support.contract import Chain
from tests.support.program import run, value
from tests.support.reader import differences


def test_every_column_of_every_table_is_what_the_node_answers(
    anvil_chain: tuple[Anvil, Chain], database_url: str
) -> None:
    node, chain = anvil_chain
    finalized = int(node.rpc("eth_getBlockByNumber", "finalized", False)["number"], 16)
    where = ["--database-url", database_url]
    planned = run(
        "plan", "--from", "0", "--to", "1000000", "--range-size", "7", "--json",
        "--rpc-url", node.url, *where,
    )  # fmt: skip
    assert planned.returncode == 0, planned.stderr
    plan = json.loads(planned.stdout)
    assert plan["blocks"] == {"from": 0, "to": finalized}
    assert any("clamped" in note for note in plan["notes"])
    assert plan["jobs"] == finalized // 7 + 1

    worked = run(
        "work", "--drain", "--concurrency", "10", "--rpc-url", node.url, *where
    )
    assert worked.returncode == 0, worked.stderr
    assert differences(node.url, database_url, range(finalized + 1)) == []

    followed = run(
        "follow", "--until", str(chain.head), "--rpc-url", node.ws_url, *where
    )
    assert followed.returncode == 0, followed.stderr
    assert value(database_url, "select max(number) from indexer.blocks") == chain.head
    worked = run("work", "--drain", "--rpc-url", str(node.ipc_path), *where)
    assert worked.returncode == 0, worked.stderr
    assert differences(node.url, database_url, range(chain.head + 1)) == []
    topics = value(
        database_url,
        "select count(distinct num_nonnulls(topic0, topic1, topic2, topic3)) "
        "from indexer.logs",
    )
    assert topics == 5
    types = value(database_url, "select count(distinct type) from indexer.transactions")
    assert types == 5


def test_a_node_of_another_chain_is_refused_with_both_chains_named(
    anvil_chain: tuple[Anvil, Chain], anvil: Anvil, database_url: str
) -> None:
    node, _ = anvil_chain
    where = ["--database-url", database_url]
    first = run("plan", "--from", "0", "--to", "2", "--rpc-url", node.url, *where)
    assert first.returncode == 0, first.stderr
    anvil.rpc("anvil_setChainId", 4242)
    second = run("work", "--drain", "--rpc-url", anvil.url, *where)
    assert second.returncode == 1
    assert "4242" in second.stderr
    assert "31337" in second.stderr
    assert "Traceback" not in second.stderr
