"""What an endpoint gives is proven before it is stored, at every level of --verify."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from indexer.devnode.chain import Chain
from indexer.devnode.faults import parse_fault
from indexer.devnode.recorded import RecordedChain
from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from tests.support.backfilling import backfill
from tests.support.program import watching
from tests.support.reader import differences

HEIGHTS = range(0, 40)
POISONED = 23

# By the id of Sepolia, so that it is known what can be proven: everything.
CONFIG = DevnodeConfig(profile="mixed", chain_id=11_155_111, height=100)


@pytest.fixture(scope="module")
def truth() -> Iterator[Devnode]:
    with running_devnode(CONFIG) as node:
        yield node


@pytest.fixture
def liar(truth: Devnode) -> Iterator[Devnode]:
    """A node that changes a digit which only a root or a hash can tell."""
    with running_devnode(CONFIG, chain=truth.chain) as served:
        yield served


def lie(node: Devnode, method: str, heights: str) -> None:
    node.faults.add(parse_fault(f"tampered:method={method},{heights}"))


def coverage(url: str) -> dict[str, tuple[str, str, str]]:
    """Return what is noted as stored, proven and unprovable, by dataset."""
    with watching(url) as conn:
        rows = conn.execute(
            "select dataset, stored::text, proven::text, unprovable::text "
            "from indexer.coverage"
        ).fetchall()
    return {str(row[0]): tuple(map(str, row[1:])) for row in rows}  # type: ignore[misc]


def stored(url: str, table: str, height: int) -> int:
    with watching(url) as conn:
        column = "number" if table == "blocks" else "block_number"
        row = conn.execute(
            f"select count(*) from indexer.{table} where {column} = %s".encode(),
            [height],
        ).fetchone()
    assert row is not None
    return int(str(row[0]))


BLOCK, RECEIPTS = "eth_getBlockByNumber", "eth_getBlockReceipts"


@pytest.mark.parametrize("method", [BLOCK, RECEIPTS])
async def test_c3_what_does_not_prove_is_not_stored_and_both_hashes_are_told(
    liar: Devnode, database_url: str, method: str
) -> None:
    lie(liar, method, f"from_height={POISONED},to_height={POISONED}")
    if method == RECEIPTS:
        # Nor singly: no way of asking gives the right ones.
        lie(
            liar,
            "eth_getTransactionReceipt",
            f"from_height={POISONED},to_height={POISONED}",
        )
    outcome = await backfill(database_url, [liar.url], HEIGHTS)
    assert outcome.failed_heights == [POISONED]
    for _, _, error in outcome.failed:
        assert len(set(re.findall(r"0x[0-9a-f]{64}", error))) >= 2, error
    if method == BLOCK:
        assert stored(database_url, "blocks", POISONED) == 0
    assert stored(database_url, "receipts", POISONED) == 0
    assert stored(database_url, "logs", POISONED) == 0
    held = [each for each in HEIGHTS if each != POISONED]
    for each in held:
        assert differences(liar.url, database_url, range(each, each + 1)) == []
    without = f"{{[0,{POISONED}),[{POISONED + 1},40)}}"
    assert coverage(database_url)["events"] == (without, without, "{}")


async def test_c3_a_failed_proof_is_got_anew_from_another_endpoint(
    truth: Devnode, liar: Devnode, database_url: str
) -> None:
    lie(liar, BLOCK, "from_height=0")
    lie(liar, RECEIPTS, "from_height=0")
    outcome = await backfill(database_url, [liar.url, truth.url], HEIGHTS)
    assert (outcome.failed, outcome.most_errors) == ([], 0)
    assert differences(truth.url, database_url, HEIGHTS) == []
    whole = ("{[0,40)}", "{[0,40)}", "{}")
    assert coverage(database_url) == {"blocks": whole, "events": whole}


async def test_c3_warn_stores_what_is_wrong_says_so_and_never_calls_it_proven(
    liar: Devnode, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    lie(liar, RECEIPTS, f"from_height={POISONED},to_height={POISONED}")
    with caplog.at_level(logging.WARNING, logger="indexer"):
        outcome = await backfill(database_url, [liar.url], HEIGHTS, verify="warn")
    assert outcome.failed == []
    said = [each for each in caplog.messages if "--verify warn" in each]
    assert len(said) == 1
    assert f"block {POISONED}: " in said[0]
    assert stored(database_url, "receipts", POISONED) > 0
    without = f"{{[0,{POISONED}),[{POISONED + 1},40)}}"
    assert coverage(database_url) == {
        "blocks": ("{[0,40)}", "{[0,40)}", "{}"),
        "events": ("{[0,40)}", without, "{}"),
    }


async def test_c3_off_proves_nothing_and_calls_nothing_proven(
    liar: Devnode, database_url: str
) -> None:
    lie(liar, RECEIPTS, f"from_height={POISONED},to_height={POISONED}")
    outcome = await backfill(database_url, [liar.url], HEIGHTS, verify="off")
    assert outcome.failed == []
    nothing = ("{[0,40)}", "{}", "{}")
    assert coverage(database_url) == {"blocks": nothing, "events": nothing}


@pytest.fixture
def odd() -> Iterator[Devnode]:
    """A node of a chain that makes its blocks' hashes in a way of its own."""
    made = Chain(DevnodeConfig(profile="mixed", height=50))
    pairs = []
    parent = "0x" + bytes(32).hex()
    for height in range(50):
        block = json.loads(made.block_json(height, True))
        receipts = json.loads(made.receipts_json(height))
        own = "0x" + sha256(block["hash"].encode()).hexdigest()
        _rename(block, receipts, block["hash"], own)
        block["parentHash"] = parent
        parent = own
        pairs.append((block, receipts))
    made.close()
    with running_devnode(chain=RecordedChain(pairs, chain_id=999_999)) as node:
        yield node


def _rename(block: Any, receipts: Any, old: str, new: str) -> None:
    logs = [log for each in receipts for log in each["logs"]]
    for item in (block, *block["transactions"], *receipts, *logs):
        for name in ("hash", "blockHash"):
            if item.get(name) == old:
                item[name] = new


async def test_c3_what_a_chain_does_not_let_be_proven_is_marked_once_and_loudly(
    odd: Devnode, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="indexer"):
        outcome = await backfill(database_url, [odd.url], HEIGHTS)
    assert outcome.failed == []
    said = [each for each in caplog.messages if "NOT PROVEN" in each]
    # Of the chain when it begins, and of the first block.
    assert len(said) == 2
    assert all("header" in each for each in said)
    assert coverage(database_url) == {
        "blocks": ("{[0,40)}", "{}", "{[0,40)}"),
        "events": ("{[0,40)}", "{[0,40)}", "{}"),
    }
    with watching(database_url) as conn:
        row = conn.execute("select profile from indexer.chain").fetchone()
    assert row == ("probed:transactions+withdrawals+receipts+bloom",)


async def test_c3_strict_stores_nothing_that_cannot_be_proven(
    odd: Devnode, database_url: str
) -> None:
    outcome = await backfill(
        database_url, [odd.url], range(20, 23), verify="strict", max_errors=1
    )
    assert outcome.failed_heights == [20, 21, 22]
    assert "cannot be proven" in outcome.failed[0][2]
    assert all(stored(database_url, "blocks", each) == 0 for each in HEIGHTS)
