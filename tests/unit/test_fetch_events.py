"""Receipts and logs that are fetched are all of the block's, and no other's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from indexer.chain.endpoint import Endpoint, ReceiptsWay
from indexer.chain.fetch import fetch_blocks, fetch_events
from indexer.errors import (
    InconsistentResponse,
    NotYetAvailable,
    RpcError,
    WithheldData,
)
from indexer.rows import BlockEvents, BlockRef
from tests.support.chainnode import HEIGHTS, Chain
from tests.support.fakenode import Refusal, running
from tests.support.fixtures import needs_fixtures, result
from tests.support.replies import (
    EMPTY_BLOOM,
    EMPTY_ROOT,
    SOME_BLOOM,
    block,
    hash_of,
    log,
    receipt,
    receipts,
    ref_of,
)


def _refuse(code: int, message: str) -> Callable[[list[Any]], Any]:
    def refuse(params: list[Any]) -> Any:
        raise Refusal(code, message)

    return refuse


@pytest.fixture
async def chain() -> AsyncIterator[Chain]:
    node = Chain()
    async with running(node):
        yield node


@pytest.fixture
async def endpoint(chain: Chain) -> AsyncIterator[Endpoint]:
    made = Endpoint(chain.url, timeout=20)
    yield made
    await made.close()


def _refs(chain: Chain) -> list[BlockRef]:
    return [ref_of(each) for each in chain.blocks.values() if each is not None]


def _shape(events: list[BlockEvents]) -> list[tuple[int, int, int]]:
    return [(each.number, len(each.receipts), len(each.logs)) for each in events]


WHOLE = [(number, 2, 3) for number in HEIGHTS]


async def test_receipts_are_asked_for_by_hash_in_one_batch(
    chain: Chain, endpoint: Endpoint
) -> None:
    events = await fetch_events(endpoint, _refs(chain))
    assert _shape(events) == WHOLE
    assert [each.hash.hex() for each in events] == [hash_of(n)[2:] for n in HEIGHTS]
    assert chain.batches == [4]
    assert chain.calls[0] == ("eth_getBlockReceipts", [hash_of(5)])


async def test_blocks_that_can_have_no_events_are_not_asked_for(
    chain: Chain, endpoint: Endpoint
) -> None:
    empty = [ref_of(block(5)), ref_of(block(6, logsBloom=None))]
    assert _shape(await fetch_events(endpoint, empty)) == [(5, 0, 0), (6, 0, 0)]
    assert chain.calls == []


async def test_a_node_that_takes_numbers_only_is_asked_by_number_from_then_on(
    chain: Chain, endpoint: Endpoint
) -> None:
    def listed(params: list[str]) -> Any:
        if len(params[0]) == 66:
            raise Refusal(-32602, "invalid argument 0: hex number > 64 bits")
        return chain.listed(params)

    chain.methods["eth_getBlockReceipts"] = listed
    assert _shape(await fetch_events(endpoint, _refs(chain))) == WHOLE
    assert endpoint.receipts_way is ReceiptsWay.BY_NUMBER
    chain.calls.clear()
    assert _shape(await fetch_events(endpoint, _refs(chain))) == WHOLE
    assert chain.calls[0] == ("eth_getBlockReceipts", ["0x5"])
    assert len(chain.calls) == 4


async def test_c2_receipts_by_number_of_a_replaced_block_are_refused(
    chain: Chain, endpoint: Endpoint
) -> None:
    endpoint.receipts_way = ReceiptsWay.BY_NUMBER
    refs = _refs(chain)
    refs[1] = refs[1]._replace(hash=b"\x99" * 32)
    with pytest.raises(InconsistentResponse, match="block 6: the block of receipt 0"):
        await fetch_events(endpoint, refs)


@pytest.mark.parametrize("code", [-32601, -32602])
async def test_a_node_without_block_receipts_is_asked_for_single_ones(
    chain: Chain, endpoint: Endpoint, code: int
) -> None:
    chain.methods["eth_getBlockReceipts"] = _refuse(code, "no such thing")
    assert _shape(await fetch_events(endpoint, _refs(chain))) == WHOLE
    assert endpoint.receipts_way is ReceiptsWay.BY_TRANSACTION
    chain.calls.clear()
    assert _shape(await fetch_events(endpoint, _refs(chain))) == WHOLE
    assert set(chain.asked()) == {"eth_getTransactionReceipt"}


async def test_an_error_about_one_block_does_not_change_the_way(
    chain: Chain, endpoint: Endpoint
) -> None:
    def listed(params: list[str]) -> Any:
        if params[0] == hash_of(6):
            raise Refusal(-32000, "receipts length mismatch: 1 vs 0")
        return chain.listed(params)

    chain.methods["eth_getBlockReceipts"] = listed
    assert _shape(await fetch_events(endpoint, _refs(chain))) == WHOLE
    assert endpoint.receipts_way is ReceiptsWay.BY_HASH
    assert chain.asked().count("eth_getTransactionReceipt") == 2


async def test_a_node_that_gives_receipts_in_no_way_says_why(
    chain: Chain, endpoint: Endpoint
) -> None:
    chain.methods["eth_getBlockReceipts"] = _refuse(-32601, "no such method")
    chain.methods["eth_getTransactionReceipt"] = _refuse(-32601, "nor this")
    with pytest.raises(RpcError, match="nor this"):
        await fetch_events(endpoint, _refs(chain))


async def test_c4_null_receipts_are_not_there_yet(
    chain: Chain, endpoint: Endpoint
) -> None:
    chain.receipts[6] = None
    with pytest.raises(NotYetAvailable, match="does not know block 6") as caught:
        await fetch_events(endpoint, _refs(chain))
    assert caught.value.block_number == 6


async def test_c4_an_empty_list_for_a_block_with_transactions_is_withheld(
    chain: Chain, endpoint: Endpoint
) -> None:
    chain.receipts[6] = []
    with pytest.raises(WithheldData, match="block 6 has 2 transactions") as caught:
        await fetch_events(endpoint, _refs(chain))
    assert caught.value.block_number == 6


async def test_c4_a_receipt_left_out_is_asked_for_by_itself(
    chain: Chain, endpoint: Endpoint
) -> None:
    def listed(params: list[str]) -> Any:
        return (chain.listed(params) or [])[:-1]

    chain.methods["eth_getBlockReceipts"] = listed
    assert _shape(await fetch_events(endpoint, _refs(chain))) == WHOLE
    single = [call for call in chain.calls if call[0] == "eth_getTransactionReceipt"]
    assert sorted(params[0] for _, params in single) == sorted(
        hash_of(number * 1000 + 1, "7a") for number in HEIGHTS
    )


async def test_logs_of_a_receipt_asked_for_by_itself_are_numbered_through_the_block(
    chain: Chain, endpoint: Endpoint
) -> None:
    first, second = [log(6, 0, 0)], [log(6, 1, 1), log(6, 1, 2)]
    chain.receipts[6] = [receipt(6, 0, logs=first), receipt(6, 1, logs=second)]

    def listed(params: list[str]) -> Any:
        return (chain.listed(params) or [])[1:]

    chain.methods["eth_getBlockReceipts"] = listed
    [events] = await fetch_events(endpoint, [ref_of(block(6, transactions=2, logs=3))])
    assert [(row.transaction_index, row.log_index) for row in events.logs] == [
        (0, 0),
        (1, 1),
        (1, 2),
    ]
    assert [row.extra for row in events.logs] == [None] * 3


async def test_c4_a_receipt_that_is_null_for_ever_is_withheld(
    chain: Chain, endpoint: Endpoint
) -> None:
    chain.receipts[6] = receipts(6, transactions=1, logs=3)
    with pytest.raises(WithheldData, match=r"no receipt for 1 of them, .* index 1"):
        await fetch_events(endpoint, _refs(chain))


async def test_c4_no_receipts_are_right_where_the_header_says_there_are_none(
    chain: Chain, endpoint: Endpoint
) -> None:
    chain.receipts[6] = []
    empty = block(6, transactions=1, receiptsRoot=EMPTY_ROOT)
    assert _shape(await fetch_events(endpoint, [ref_of(empty)])) == [(6, 0, 0)]


async def test_c4_logs_missing_by_the_headers_bloom_are_withheld(
    chain: Chain, endpoint: Endpoint
) -> None:
    chain.receipts[6] = receipts(6, transactions=2)
    with pytest.raises(WithheldData, match="block 6 has logs by its header's bloom"):
        await fetch_events(endpoint, _refs(chain))


async def test_c4_logs_missing_by_a_receipts_bloom_are_withheld(
    chain: Chain, endpoint: Endpoint
) -> None:
    bent = receipts(6, transactions=2, logs=3)
    bent[1]["logsBloom"] = SOME_BLOOM
    chain.receipts[6] = bent
    with pytest.raises(WithheldData, match="block 6: receipt 1 has logs by its bloom"):
        await fetch_events(endpoint, _refs(chain))


async def test_c4_a_block_without_transactions_but_with_a_bloom_is_asked_for(
    chain: Chain, endpoint: Endpoint
) -> None:
    chain.receipts[6] = []
    with pytest.raises(WithheldData):
        await fetch_events(endpoint, [ref_of(block(6, logs=1))])


async def test_c2_logs_where_the_header_has_none_are_refused(
    chain: Chain, endpoint: Endpoint
) -> None:
    ref = ref_of(block(6, transactions=2))
    with pytest.raises(InconsistentResponse, match="no logs by its header's bloom"):
        await fetch_events(endpoint, [ref])


@pytest.mark.parametrize("root", [None, "0x" + "00" * 32])
async def test_a_header_that_says_nothing_contradicts_no_logs(
    chain: Chain, endpoint: Endpoint, root: str | None
) -> None:
    ref = ref_of(block(6, transactions=2, receiptsRoot=root))
    assert _shape(await fetch_events(endpoint, [ref])) == [(6, 2, 3)]


async def test_c2_logs_a_chain_adds_at_no_gas_are_in_no_bloom(
    chain: Chain, endpoint: Endpoint
) -> None:
    added = receipts(6, transactions=1, logs=2)
    added[0] |= {"gasUsed": "0x0", "cumulativeGasUsed": "0x0"}
    chain.receipts[6] = added
    ref = ref_of(block(6, transactions=1, logsBloom=EMPTY_BLOOM))
    assert _shape(await fetch_events(endpoint, [ref])) == [(6, 1, 2)]


@pytest.mark.parametrize(
    ("bent", "message"),
    [
        ([receipt(6, 0), receipt(6, 1), receipt(6, 2)], "a receipt with index 2"),
        (
            [receipt(6, 0), receipt(6, 1, transactionHash=hash_of(1))],
            "receipt 1 is of transaction",
        ),
        ([receipt(6, 0), receipt(6, 0)], "receipt index twice"),
        (
            [receipt(6, 0), receipt(6, 1, blockHash=hash_of(7))],
            "the block of receipt 1",
        ),
    ],
)
async def test_c2_receipts_of_other_transactions_are_refused(
    chain: Chain, endpoint: Endpoint, bent: list[dict[str, Any]], message: str
) -> None:
    chain.receipts[6] = bent
    with pytest.raises(InconsistentResponse, match=message):
        await fetch_events(endpoint, [ref_of(block(6, transactions=2))])


PAIRS = [
    ("ethereum/1000000/block.json", "ethereum/1000000/receipts.json"),
    ("ethereum/18000000/block.json", "ethereum/18000000/receipts.json"),
    ("arbitrum/150000000/block.json", "arbitrum/150000000/receipts.json"),
    ("cronos/6541/block.json", "cronos/6541/receipts.json"),
    ("cronos/6542/block.json", "cronos/6542/receipts.json"),
    ("tempo-mainnet/17708868/block.json", "tempo-mainnet/17708868/receipts.json"),
    ("polygon/135808/block.json", "polygon/135808/receipt_0xf658e64d.json"),
    ("zksync/block_35533.json", "zksync/receipt_35533.json"),
    ("fantom/2/block.json", "fantom/2/receipt.json"),
]


@needs_fixtures
@pytest.mark.parametrize(("block_file", "receipts_file"), PAIRS)
async def test_recorded_blocks_and_receipts_of_real_chains_pass_the_checks(
    chain: Chain, endpoint: Endpoint, block_file: str, receipts_file: str
) -> None:
    whole = result(block_file)
    listed = result(receipts_file)
    listed = listed if isinstance(listed, list) else [listed]
    number = int(whole["number"], 16)
    chain.blocks[number] = whole
    chain.methods["eth_getBlockReceipts"] = lambda params: listed
    [data] = await fetch_blocks(endpoint, [number])
    assert len(data.transactions) == len(whole["transactions"])
    [events] = await fetch_events(endpoint, [ref_of(whole)])
    assert len(events.receipts) == len(listed)
    assert len(events.logs) == sum(len(each["logs"]) for each in listed)


@needs_fixtures
async def test_c2_a_recorded_receipt_of_another_chain_is_refused(
    chain: Chain, endpoint: Endpoint
) -> None:
    whole = result("optimism/l2geth_985/block.json")
    other = result("optimism/l2geth_985/receipt_0.json")
    chain.methods["eth_getBlockReceipts"] = lambda params: [other]
    with pytest.raises(InconsistentResponse):
        await fetch_events(endpoint, [ref_of(whole)])
