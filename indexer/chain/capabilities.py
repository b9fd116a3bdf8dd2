"""What a node can give: asked once at the start, so that jobs need not find out."""

from __future__ import annotations

import logging
from typing import Final

from indexer.chain.decode import decode_header, decode_quantity, is_null
from indexer.chain.endpoint import Endpoint
from indexer.chain.endpoints import Endpoints
from indexer.chain.fetch import fetch_blocks
from indexer.chain.receipts import try_receipts
from indexer.errors import (
    ChainDataError,
    IndexerError,
    PrunedHistory,
    RpcError,
    TransientError,
)
from indexer.rows import BlockData, BlockRef

log = logging.getLogger(__name__)

_BLOCK: Final = "eth_getBlockByNumber"


async def look_at_history(endpoints: Endpoints, height: int) -> None:
    """Find out which endpoints still have all of the block at a height.

    ``height`` is the lowest that is wanted. Those that threw it away, or answer that
    they know no such block below their own head, are asked last for it from then on.
    An endpoint that does not answer is not judged.
    """
    for endpoint in endpoints.all:
        try:
            missing = await endpoints.ask(endpoint, lambda one: _missing(one, height))
        except IndexerError as error:
            log.info("%s: its history is not known: %s", endpoint.name, error)
            continue
        if missing is not None:
            endpoint.history_from = height + 1
            log.warning(
                "%s has not all of block %d (%s); others are asked for its range",
                endpoint.name,
                height,
                missing,
            )


async def knows_finalized(endpoint: Endpoint) -> bool:
    """Tell whether a node knows the tag ``finalized``."""
    try:
        raw = await endpoint.call(_BLOCK, ["finalized", False])
        return decode_header(raw, number=None, method=_BLOCK) is not None
    except (RpcError, TransientError) as error:
        if not isinstance(error, RpcError) and not isinstance(
            error.__cause__, RpcError
        ):
            raise
        return False


async def _missing(endpoint: Endpoint, height: int) -> str | None:
    """Return what of a block an endpoint lacks, None where it has everything."""
    head = decode_quantity(
        await endpoint.call("eth_blockNumber", []), method="eth_blockNumber"
    )
    if head < height:
        # It lags, or syncs; that passes.
        return None
    try:
        raw = await endpoint.call(_BLOCK, [hex(height), False])
        if is_null(raw):
            return "no block"
        [data] = await fetch_blocks(endpoint, [height])
        [events] = await try_receipts(endpoint, [_ref(data)])
    except PrunedHistory as error:
        return str(error)
    except (RpcError, ChainDataError):
        # Whatever it is, the job will say so.
        return None
    if isinstance(events, PrunedHistory):
        return str(events)
    if isinstance(events, ChainDataError):
        return "no receipts"
    return None


def _ref(data: BlockData) -> BlockRef:
    block = data.block
    hashes = tuple([row.hash for row in data.transactions])
    return BlockRef(
        block.number,
        block.hash,
        block.timestamp,
        block.receipts_root,
        block.logs_bloom,
        hashes,
    )
