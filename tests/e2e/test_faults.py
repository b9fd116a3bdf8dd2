"""However a node lies, throttles and fails: the tables are still the chain."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from indexer.devnode.faults import parse_faults
from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from tests.support.backfilling import Outcome, backfill
from tests.support.reader import differences

HEIGHTS = range(0, 60)
# A block with transactions and logs.
POISONED = 23

# What indexing the heights takes of a node without faults, and what a fault may cost.
_QUIET = 11
_MORE = 25
# Once it is slowed down it asks in smaller batches.
_SLOWED = 75
# Batches that are always wrong are asked for one by one, once for blocks and once for
# their receipts.
_ONE_BY_ONE = 2 * len(HEIGHTS) + 2 * len(HEIGHTS)

# By the id of Sepolia, so that it is known what can be proven: everything.
CONFIG = DevnodeConfig(profile="mixed", chain_id=11_155_111, height=300)


@pytest.fixture(scope="module")
def truth() -> Iterator[Devnode]:
    """A healthy node, whose chain the others serve too."""
    with running_devnode(CONFIG) as node:
        yield node


@pytest.fixture
def node(truth: Devnode) -> Iterator[Devnode]:
    """A node of the same chain whose faults are the test's own."""
    with running_devnode(CONFIG, chain=truth.chain) as served:
        yield served


@pytest.fixture
def other(truth: Devnode) -> Iterator[Devnode]:
    """One more of them."""
    with running_devnode(CONFIG, chain=truth.chain) as served:
        yield served


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait between the tries; how often there are some is what counts."""
    monkeypatch.setattr("indexer.chain.gather._LONGEST_PAUSE_SECONDS", 0.01)


async def _index(
    url: str, faults: dict[Devnode, str], heights: range = HEIGHTS, **settings: object
) -> Outcome:
    """Index heights from nodes whose faults begin when the worker does."""

    def ready() -> None:
        for node, kinds in faults.items():
            node.counters.clear()
            for fault in parse_faults(kinds):
                node.faults.add(fault)

    urls = [node.url for node in faults]
    return await backfill(url, urls, heights, ready=ready, **settings)


def _wrong(node: Devnode, database_url: str, heights: range = HEIGHTS) -> list[str]:
    """Return how the tables differ, but for a node's own numbers of its logs.

    Where those are not unique in a block the position counts, and they are kept.
    """
    found = differences(node.url, database_url, heights)
    return [each for each in found if "extra holds logIndex" not in each]


# What passes: it strikes a few times, and is then over.
PASSING = [
    "latency:seconds=0.05",
    "status:times=2",
    "http_429:times=3",
    "http_429:retry_after=1,times=1",
    "http_413:times=3",
    "http_502:times=2",
    "plain_text:times=3",
    "no_envelope:times=3",
    "drop:times=3",
    "reset:times=3",
    "error:times=5",
    "error_rate_limit:times=3",
    "error_32007:times=3",
    "error_32016:times=3",
    "error_30:times=2",
    "error_nested_429:times=3",
    "null_block:times=5",
    "null_receipts:times=5",
    "null_first:count=2",
    "wrong_hash:times=5",
    "stray_hash:times=5",
    "wrong_number:times=5",
    "wrong_parent:times=5",
    "pending_block:times=5",
    "short_block:times=5",
    "tampered:times=5",
    "max_values:times=5",
    "missing_field:skip=5,times=5",
    "empty_receipts:times=5",
    "short_receipts:times=5",
    "partial_logs:times=5",
    "doubled_log_index:times=5",
    "doubled_log:times=5",
    "batch_shuffled",
    "batch_short:times=3",
    "batch_doubled:times=3",
    "batch_repeated:times=3",
    "batch_swapped:times=3",
    "foreign_id:times=3",
    "batch_same_id:times=3",
    "batch_one_error:times=3",
    "truncated:times=3",
    "cut:times=3",
    "drip:times=3",
    "lag:times=3",
    "head_back:times=3",
    "other_block:times=3",
]
# What stays, but leaves a way: smaller batches, other methods, or it is no fault.
STAYING = [
    "unsupported",
    "batch_limit:count=3",
    "batch_limit_one:count=3",
    "batch_limit_drop:count=3",
    "batch_limit_413:count=3",
    "batch_short",
    "batch_doubled",
    "batch_swapped",
    "batch_same_id",
    "batch_one_error",
    "response_limit:count=60000",
    "short_receipts",
    "empty_receipts",
    "head_back",
    "local_log_index",
]
# What is wrong with one block for ever, of what kind its job is, and what its reason
# says.
POISON = {
    "null_block": ("index_blocks", "has no block 23"),
    "null_receipts": ("index_events", "does not know block 23"),
    "wrong_hash:method=eth_getBlockByNumber": ("index_blocks", "block 23"),
    "wrong_number": ("index_blocks", "asked for block 23, got block 24"),
    "wrong_parent": ("index_blocks", "block 23"),
    "short_block": ("index_blocks", "block 23"),
    "tampered:method=eth_getBlockByNumber": ("index_blocks", "block 23"),
    "tampered:method=eth_getBlockReceipts": ("index_events", "block 23"),
    "partial_logs": ("index_events", "block 23"),
    "doubled_log": ("index_events", "block 23"),
    "max_values:method=eth_getBlockByNumber": ("index_blocks", "23"),
    "error:method=eth_getBlockByNumber": ("index_blocks", "fault on purpose"),
    "error_4444:method=eth_getBlockReceipts": ("index_events", "pruned history"),
}


@pytest.mark.parametrize("faults", PASSING)
async def test_c4_a_fault_that_passes_leaves_no_trace(
    truth: Devnode, node: Devnode, database_url: str, faults: str
) -> None:
    found = await _index(database_url, {node: faults})
    assert found.failed == []
    assert _wrong(truth, database_url) == []
    assert sum(node.faults.tally.values()) > 0
    more = _SLOWED if "429" in faults or "error_" in faults else _MORE
    assert node.counters.requests <= _QUIET + more


@pytest.mark.parametrize("faults", STAYING)
async def test_c1_a_fault_that_stays_is_got_around(
    truth: Devnode, node: Devnode, database_url: str, faults: str
) -> None:
    found = await _index(database_url, {node: faults})
    assert found.failed == []
    assert _wrong(truth, database_url) == []
    assert sum(node.faults.tally.values()) > 0
    assert node.counters.requests <= _QUIET + _ONE_BY_ONE


@pytest.mark.parametrize("faults", POISON)
async def test_c8_a_poison_block_fails_alone_with_its_reason_and_the_rest_goes_on(
    truth: Devnode, node: Devnode, database_url: str, faults: str
) -> None:
    kind, reason = POISON[faults]
    colon = "," if ":" in faults else ":"
    place = f"{faults}{colon}from_height={POISONED},to_height={POISONED}"
    found = await _index(database_url, {node: place})
    [(failed, payload, error)] = found.failed
    assert (failed, payload) == (kind, {"from": POISONED, "to": POISONED})
    assert reason in error
    wrong = _wrong(truth, database_url)
    assert wrong
    assert all(f" of {POISONED}: 0 rows" in each for each in wrong), wrong
    # Five tries in each of three executions, and what they cost around it.
    assert node.counters.requests <= _QUIET + 3 * _MORE


async def test_c8_where_everything_is_wrong_it_is_the_range_that_fails(
    truth: Devnode, node: Devnode, database_url: str
) -> None:
    found = await _index(database_url, {node: "wrong_number"})
    [(kind, payload, error)] = found.failed
    assert (kind, payload) == ("index_blocks", {"from": 0, "to": 59})
    assert "asked for block 0, got block 1" in error
    assert all(" 0 rows" in each for each in _wrong(truth, database_url))
    assert node.counters.requests <= _QUIET + 2 * _MORE


async def test_c7_a_block_one_node_lies_about_comes_whole_from_another(
    truth: Devnode, node: Devnode, other: Devnode, database_url: str
) -> None:
    faults = f"tampered:from_height={POISONED},to_height={POISONED}"
    found = await _index(database_url, {node: faults, other: ""})
    assert found.failed == []
    assert _wrong(truth, database_url) == []
    # One block and its receipts, and what is asked before any node is.
    assert other.counters.requests <= 10


async def test_c7_a_range_one_node_has_thrown_away_comes_from_another(
    truth: Devnode, node: Devnode, other: Devnode, database_url: str
) -> None:
    found = await _index(database_url, {node: "pruned:height=200", other: ""})
    assert found.failed == []
    assert found.most_errors == 0
    assert _wrong(truth, database_url) == []
    assert node.counters.methods["eth_getBlockReceipts"] <= 30
    assert other.counters.methods["eth_getBlockByNumber"] >= len(HEIGHTS)


async def test_history_that_nobody_has_any_more_is_the_reason_of_the_failure(
    truth: Devnode, node: Devnode, database_url: str
) -> None:
    found = await _index(database_url, {node: "pruned_receipts:height=200"})
    [(kind, payload, error)] = found.failed
    assert (kind, payload) == ("index_events", {"from": 0, "to": 59})
    assert "pruned history unavailable" in error
    assert node.counters.requests <= _QUIET + _MORE


async def test_c4_of_three_nodes_two_are_bad_and_the_good_one_is_settled_on(
    truth: Devnode, node: Devnode, other: Devnode, database_url: str
) -> None:
    heights = range(0, 290)
    with running_devnode(CONFIG, chain=truth.chain) as good:
        found = await _index(
            database_url,
            {node: "lag:count=25", other: "partial_logs", good: ""},
            heights,
            range_size=10,
            finality_depth=0,
        )
        assert found.failed == []
        assert found.most_errors == 0
        assert _wrong(truth, database_url, heights) == []
        liar = other.counters.methods["eth_getBlockReceipts"]
        honest = good.counters.methods["eth_getBlockReceipts"]
        assert liar < honest


async def test_a_silent_node_costs_its_time_once_and_another_stands_in(
    truth: Devnode, node: Devnode, other: Devnode, database_url: str
) -> None:
    found = await _index(
        database_url, {node: "silence", other: ""}, answer_within=0.5, concurrency=1
    )
    assert found.failed == []
    assert found.most_errors == 0
    assert _wrong(truth, database_url) == []
    assert node.counters.requests <= 3


async def test_a_lone_node_that_is_silent_for_a_while_costs_no_error(
    truth: Devnode, node: Devnode, database_url: str
) -> None:
    found = await _index(
        database_url, {node: "silence:times=6"}, answer_within=0.3, concurrency=1
    )
    assert found.failed == []
    assert found.most_errors == 0
    assert _wrong(truth, database_url) == []
