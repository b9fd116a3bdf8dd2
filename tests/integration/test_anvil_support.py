from __future__ import annotations

import socket

import pytest

from tests.support.anvil import Anvil, AnvilError
from tests.support.contract import Chain

LOGS = [
    (0, 8),
    (0, 0),
    (1, 32),
    (2, 1),
    (3, 33),
    (4, 1000),
    (4, 0),
    (1, 39),
]


@pytest.fixture
def node(anvil_chain: tuple[Anvil, Chain]) -> Anvil:
    return anvil_chain[0]


@pytest.fixture
def chain(anvil_chain: tuple[Anvil, Chain]) -> Chain:
    return anvil_chain[1]


def receipt(node: Anvil, transaction: str) -> dict[str, object]:
    found: dict[str, object] = node.rpc("eth_getTransactionReceipt", transaction)
    return found


def test_the_node_answers_as_anvil(anvil: Anvil) -> None:
    assert anvil.rpc("web3_clientVersion").startswith("anvil/")
    assert anvil.rpc("eth_blockNumber") == "0x0"


def test_an_error_of_the_node_is_raised(anvil: Anvil) -> None:
    with pytest.raises(AnvilError, match="no_such_method"):
        anvil.rpc("no_such_method")


def test_the_node_listens_on_its_socket_too(anvil: Anvil) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(anvil.ipc_path))
        client.sendall(b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}')
        assert b'"0x7a69"' in client.recv(4096)


def test_it_mines_only_when_told_and_finalizes_behind(anvil: Anvil) -> None:
    assert anvil.mine(7) == 7
    finalized = anvil.rpc("eth_getBlockByNumber", "finalized", False)["number"]
    assert int(finalized, 16) == 3


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4])
def test_transactions_of_every_type_emit_every_kind_of_log(
    node: Anvil, chain: Chain, kind: int
) -> None:
    found = node.rpc("eth_getTransactionByHash", chain.transactions[kind][0])
    assert int(found["type"], 16) == kind
    answer = node.rpc("eth_getTransactionReceipt", chain.transactions[kind][0])
    assert answer["status"] == "0x1"
    logs = answer["logs"]
    shapes = [(len(each["topics"]), len(each["data"]) // 2 - 1) for each in logs]
    assert shapes == LOGS


def test_a_reverted_transaction_leaves_no_log(node: Anvil, chain: Chain) -> None:
    assert chain.reverted
    for transaction in chain.reverted:
        assert receipt(node, transaction)["status"] == "0x0"
        assert receipt(node, transaction)["logs"] == []


def test_every_transaction_that_was_sent_was_mined(node: Anvil, chain: Chain) -> None:
    blocks = node.batch(
        "eth_getBlockByNumber", [[hex(n), False] for n in range(chain.head + 1)]
    )
    mined = {each for block in blocks for each in block["transactions"]}
    assert set(chain.hashes) <= mined
    sizes = [len(block["transactions"]) for block in blocks]
    assert 0 in sizes[1:]
    assert max(sizes) >= 10


def test_delegated_code_runs_in_the_account_that_allowed_it(
    node: Anvil, chain: Chain
) -> None:
    transaction = chain.transactions[4][0]
    found = node.rpc("eth_getTransactionByHash", transaction)
    assert found["authorizationList"]
    logs = node.rpc("eth_getTransactionReceipt", transaction)["logs"]
    assert {each["address"] for each in logs} == {found["from"]}
