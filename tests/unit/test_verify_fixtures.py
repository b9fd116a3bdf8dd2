"""Recorded blocks of real chains prove, whole; edited and trimmed ones do not."""

from __future__ import annotations

import pytest

from indexer.chain.verify import (
    ETHEREUM,
    Commitment,
    Profile,
    probe,
    profile_of,
    prove_block,
    prove_events,
    prove_header,
)
from indexer.errors import ChainDataError, InconsistentResponse, ProofFailed
from tests.support import proving
from tests.support.fixtures import needs_fixtures
from tests.support.rlpchain import rlp_chain

pytestmark = needs_fixtures

INDEX = proving.index()
HASHES = [line.file for line in INDEX if line.hash == "ok"]
ROOTS = [line.file for line in INDEX if line.transactions_root == "ok"]

# The first part of the name that fits says which chain a file is of.
_CHAINS = {
    "arbitrum/": 42_161,
    "base/": 8453,
    "etc/": 61,
    "ethereum/": 1,
    "goerli/": 5,
    "mainnet/devnet_dencun_122987/": None,
    "mainnet/": 1,
    "optimism/bedrock_goerli": 420,
    "optimism/": 10,
    "polygon/": 137,
    "ropsten/": 3,
    "sepolia/goerli": 5,
}

# Blocks of which every receipt was recorded.
WITH_RECEIPTS = [
    "arbitrum/150000000/block.json",
    "ethereum/1000000/block.json",
    "ethereum/18000000/block.json",
    "mainnet/block_483920/block.json",
    "mainnet/devnet_dencun_122987/block.json",
    "optimism/bedrock_goerli_5003318/block.json",
    "optimism/l2geth_1/block.json",
    "optimism/l2geth_1241186/block.json",
    "polygon/19594674/block.json",
    "ropsten/10994/block.json",
    "ropsten/363366/block.json",
    "ropsten/468179/block.json",
]


def profile_for(file: str) -> Profile:
    for start, chain_id in _CHAINS.items():
        if file.startswith(start):
            known = None if chain_id is None else profile_of(chain_id)
            return ETHEREUM if known is None else known
    return probe([])._replace(proves=ETHEREUM.proves)


def test_the_index_names_as_many_proven_files_as_it_did() -> None:
    assert len(HASHES) == 40
    assert len(ROOTS) == 22


@pytest.mark.parametrize("file", HASHES)
def test_c3_the_hash_of_every_header_listed_as_whole_is_proven(file: str) -> None:
    whole = proving.has_transactions(file)
    block = proving.block_rows(file).block if whole else proving.header_row(file)
    proof = prove_header(block, profile_for(file))
    assert proof.proven == {Commitment.HEADER}
    assert proof.unprovable == {}


@pytest.mark.parametrize("file", ROOTS)
def test_c3_every_list_of_transactions_listed_as_whole_is_proven(file: str) -> None:
    profile = profile_for(file)
    if file not in HASHES:
        profile = profile._replace(proves=frozenset({Commitment.TRANSACTIONS}))
    proof = prove_block(proving.block_rows(file), profile)
    assert Commitment.TRANSACTIONS in proof.proven
    assert proof.unprovable.keys() == set(ETHEREUM.proves - profile.proves) - {
        Commitment.RECEIPTS,
        Commitment.BLOOM,
        *_without_withdrawals(file),
    }


def _without_withdrawals(file: str) -> set[Commitment]:
    has_root = proving.block_rows(file).block.withdrawals_root is not None
    return set() if has_root else {Commitment.WITHDRAWALS}


# Not checked when the index was made, because of transactions of types it did not
# encode (0x6a, 0x7e), of a seal by AuRa, or of a header by coreth.
@pytest.mark.parametrize(
    "file",
    [
        "arbitrum/150000000/block.json",
        "fuse/block_12989539.json",
        "gnosis/block_26803.json",
        "optimism/bedrock_goerli_5003318/block.json",
        "poa/sokol_block_0_cassette.json",
        "polygon/135808/block.json",
    ],
)
def test_c3_more_is_proven_than_the_index_says(file: str) -> None:
    proof = prove_block(proving.block_rows(file), profile_for(file))
    assert proof.proven == {Commitment.HEADER, Commitment.TRANSACTIONS}
    assert proof.unprovable == {}


@pytest.mark.parametrize(
    "file", ["avalanche/block_30806864.json", "poa/block_806669_cassette.json"]
)
def test_c3_headers_with_fields_of_their_own_are_proven(file: str) -> None:
    proof = prove_header(proving.header_row(file), profile_for(file))
    assert proof.proven == {Commitment.HEADER}


# Blocks with a receipt for each transaction that the tests below tell more of.
_OTHERWISE = {
    "arbitrum/classic_19000174/block.json",
    "base/387634/block.json",
    "bittensor-testnet/6646068/block.json",
    "cronos/10000/block.json",
    "cronos/11446765/block.json",
    "cronos/6542/block.json",
    "fantom/2/block.json",
    "harmony/eth_block_42379341.json",
    "harmony/hmy_block_42379341.json",
    "polygon/135808/block.json",
    "polygon/34155965/block.json",
    "stable-testnet/59083166/block.json",
    "tempo-mainnet/17708868/block.json",
    "tempoModerato/6541/block.json",
    "zksync/block_35533.json",
}


def test_no_block_with_all_its_receipts_is_forgotten() -> None:
    complete = {
        item.file
        for item in proving.everything()
        if item.kind == "block"
        and item.value.get("transactions")
        and len(item.value["transactions"])
        == len(proving.recorded_receipts(bytes.fromhex(item.value["hash"][2:])))
    }
    assert complete == set(WITH_RECEIPTS) | _OTHERWISE


@pytest.mark.parametrize("file", WITH_RECEIPTS)
def test_c3_every_block_with_all_its_receipts_is_proven_whole(file: str) -> None:
    data, profile = proving.block_rows(file), profile_for(file)
    events = proving.event_rows(data.block)
    assert len(events.receipts) == len(data.transactions) > 0
    assert prove_block(data, profile).unprovable == {}
    proof = prove_events(data.block, events, profile)
    assert proof.proven == {Commitment.RECEIPTS, Commitment.BLOOM}
    assert proof.unprovable == {}
    assert prove_events(proving.reference(data.block), events, profile) == proof


def test_c3_receipts_recorded_beside_a_header_alone_are_proven() -> None:
    block = proving.header_row("base/387634/block.json")
    proof = prove_events(block, proving.event_rows(block), profile_for("base/"))
    assert proof.proven == {Commitment.RECEIPTS, Commitment.BLOOM}


@pytest.mark.parametrize(
    ("file", "types"),
    [
        ("bittensor-testnet/6646068/block.json", {4}),
        ("fantom/2/block.json", {0}),
        ("stable-testnet/59083166/block.json", {2, 0x3F}),
        ("tempo-mainnet/17708868/block.json", {0, 0x76}),
        ("tempoModerato/6541/block.json", {0}),
    ],
)
def test_c3_receipts_are_proven_where_headers_are_not_even_of_types_of_their_own(
    file: str, types: set[int]
) -> None:
    block = proving.block_rows(file).block
    events = proving.event_rows(block)
    assert {row.type for row in events.receipts} == types
    proof = prove_events(block, events, profile_for(file))
    assert proof.proven == {Commitment.RECEIPTS, Commitment.BLOOM}


@pytest.mark.parametrize(
    ("file", "error"),
    [
        ("polygon/34155965/block.json", ProofFailed),
        ("etc/block_13496679.json", InconsistentResponse),
        ("bsc/block_50592404_pre_lorentz_node.json", ProofFailed),
    ],
)
def test_c3_trimmed_and_edited_blocks_are_refused(
    file: str, error: type[ChainDataError]
) -> None:
    with pytest.raises(error, match="block"):
        prove_block(proving.block_rows(file), profile_for(file))


def test_c3_a_trimmed_list_that_counts_from_0_has_another_root() -> None:
    data = proving.block_rows("etc/block_13496679.json")
    rows = [
        row._replace(transaction_index=i) for i, row in enumerate(data.transactions)
    ]
    with pytest.raises(ProofFailed, match="transactions root") as caught:
        prove_block(data._replace(transactions=rows), profile_for("etc/"))
    assert caught.value.block_number == data.block.number
    assert caught.value.commitment == Commitment.TRANSACTIONS
    assert caught.value.expected == data.block.transactions_root
    assert data.block.transactions_root is not None
    assert data.block.transactions_root.hex() in str(caught.value)
    assert caught.value.computed.hex() in str(caught.value)


def test_c3_receipts_of_another_chain_are_refused() -> None:
    data = proving.block_rows("optimism/l2geth_985/block.json")
    other = proving.block_rows("optimism/l2geth_1/block.json")
    with pytest.raises(InconsistentResponse, match="its receipts are those of"):
        prove_events(data.block, proving.event_rows(other.block), profile_for("optim"))


def test_c3_a_whole_chain_of_every_fork_read_from_its_rlp_is_proven() -> None:
    chain = rlp_chain()
    assert [data.block.number for data in chain] == list(range(1, 55))
    types = {row.type for data in chain for row in data.transactions}
    assert types == {0, 1, 2, 3, 4}
    assert any(row.to_address is None for d in chain for row in d.transactions)
    for below, data in zip([None, *chain], chain, strict=False):
        assert below is None or data.block.parent_hash == below.block.hash
        proof = prove_block(data, ETHEREUM)
        shanghai = data.block.withdrawals_root is not None
        assert proof.unprovable == {}
        assert proof.proven == {
            Commitment.HEADER,
            Commitment.TRANSACTIONS,
            *([Commitment.WITHDRAWALS] if shanghai else []),
        }
    forks = {
        (row.base_fee_per_gas, row.withdrawals_root, row.blob_gas_used).count(None)
        for row in (data.block for data in chain)
    }
    assert forks == {0, 1, 2, 3}
    assert any(data.block.requests_hash for data in chain)
    assert any(data.withdrawals for data in chain)


def test_c3_receipts_recorded_of_that_chain_are_proven_against_its_headers() -> None:
    proven = {
        data.block.number: prove_events(
            data.block, proving.event_rows(data.block), ETHEREUM
        ).proven
        for data in rlp_chain()
        if data.transactions
        and len(proving.recorded_receipts(data.block.hash)) == len(data.transactions)
    }
    assert proven[1] == {Commitment.RECEIPTS, Commitment.BLOOM}
    assert set(proven.values()) == {proven[1]}
