"""An extra text in a reply that few parsers and fewer databases take."""

from __future__ import annotations

import msgspec

from indexer.devnode.faults.fault import Fault
from indexer.devnode.faults.kind import (
    BLOCKS,
    LOGS,
    RECEIPT,
    RECEIPTS,
    CallKind,
    Memory,
    Met,
    Outcome,
)
from indexer.devnode.faults.lies import objects
from indexer.devnode.messages import RpcFailure

# What stands for the text until it is put in as bytes: no encoder would write it.
_PLACE = "the text comes here"


def _text(doc: str, text: bytes) -> CallKind:
    def spoil(fault: Fault, _memory: Memory, met: Met) -> Outcome | None:
        if isinstance(met.outcome, RpcFailure) or met.outcome == b"null":
            return None
        result = msgspec.json.decode(met.outcome)
        found = list(objects(result))
        if not found:
            return None
        # The outermost and the innermost: a block and a transaction, a receipt and
        # a log.
        for item in (found[0], found[-1]):
            item[fault.field] = _PLACE
        return msgspec.json.encode(result).replace(_PLACE.encode(), text)

    return CallKind(
        doc=doc,
        spoil=spoil,
        methods=BLOCKS | RECEIPTS | RECEIPT | LOGS,
        defaults={"field": "note"},
    )


TEXT_KINDS = {
    "nul_text": _text("An extra member `field` (note) has a NUL in it.", rb"a\u0000b"),
    "invalid_utf8_text": _text(
        "An extra member `field` (note) is no UTF-8.", b"a\xa7\xff\xc3b"
    ),
    "surrogate_text": _text(
        "An extra member `field` (note) has half a surrogate pair in it.", rb"a\ud800b"
    ),
}
