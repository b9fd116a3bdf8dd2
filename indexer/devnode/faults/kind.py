"""What a kind of fault is, by the place in a request where it strikes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from indexer.devnode.faults.fault import Fault
from indexer.devnode.messages import Call, RpcFailure
from indexer.devnode.served import ReadableChain, ServedChain

BLOCKS = frozenset({"eth_getBlockByNumber", "eth_getBlockByHash"})
RECEIPTS = frozenset({"eth_getBlockReceipts"})
RECEIPT = frozenset({"eth_getTransactionReceipt"})
TRANSACTION = frozenset({"eth_getTransactionByHash"})
LOGS = frozenset({"eth_getLogs"})
ANY: frozenset[str] = frozenset()

# What a call is answered with: the JSON of its result, or an error.
Outcome = bytes | RpcFailure


class Act(NamedTuple):
    """What becomes of a whole request.

    First ``wait`` seconds pass. Then the connection ends as ``end`` says, or the
    request is answered with ``status``, ``body`` and ``headers``, or, where there
    is neither, it goes its way.
    """

    wait: float = 0.0
    end: Literal["", "drop", "reset", "silence"] = ""
    status: int = 0
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}


class Memory:
    """What a fault remembers from request to request.

    ``head`` is where the chain's head was when the fault came into force.
    """

    def __init__(self, head: int) -> None:
        self.head = head
        # How often a call about certain heights was asked.
        self.asks: dict[tuple[str, range], int] = {}
        # Tokens left in a bucket, and when that was so.
        self.tokens: tuple[float, float] | None = None


class Met(NamedTuple):
    """A call under a fault: the call, the heights it is about, its true answer."""

    call: Call
    heights: range | None
    outcome: Outcome


class Response(NamedTuple):
    """How a finished body goes out.

    ``stop`` is how many of its bytes are sent before the connection ends, -1 for
    all; with ``pieces`` it goes in so many, ``seconds`` apart.
    """

    body: bytes
    stop: int = -1
    pieces: int = 1
    seconds: float = 0.0


def filled(text: str, **values: object) -> str:
    """Put values where a text has their names in braces; other braces stay."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", f"{value}")
    return text


# The id of each reply of a batch with the reply's ``"result"`` or ``"error"`` member.
Parts = list[tuple[bytes, bytes]]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A named kind of fault.

    ``methods`` is what it can spoil, empty for all. ``defaults`` fill the fields
    that a fault leaves out. ``scheduled`` says whether a schedule that names no
    kinds draws it: not those that a client can only wait out, nor lies that no hash
    reveals. ``heads`` changes which heights are announced.
    """

    doc: str
    methods: frozenset[str] = ANY
    defaults: Mapping[str, object] = field(default_factory=dict)
    scheduled: bool = False
    heads: Callable[[Fault, Sequence[int]], Sequence[int]] | None = None


@dataclass(frozen=True, kw_only=True)
class RequestKind(Kind):
    """It befalls a whole request, before any call of it is answered.

    ``act`` is given the fault, its memory and the ids of the calls; ``None`` where
    it lets the request pass.
    """

    act: Callable[[Fault, Memory, Sequence[bytes]], Act | None]


@dataclass(frozen=True, kw_only=True)
class ViewKind(Kind):
    """It answers a whole request from another backend, with another view."""

    view: Callable[[Fault, ServedChain], ReadableChain]


@dataclass(frozen=True, kw_only=True)
class CallKind(Kind):
    """It replaces the answer of a call, ``None`` where it has nothing to spoil."""

    spoil: Callable[[Fault, Memory, Met], Outcome | None]


@dataclass(frozen=True, kw_only=True)
class BatchKind(Kind):
    """It disarranges a batch, ``None`` where that is too short for it.

    ``arrange`` is given the replies and a number to choose by.
    """

    arrange: Callable[[Fault, Parts, int], Parts | bytes | None]
    needs_batch: bool = True


@dataclass(frozen=True, kw_only=True)
class BodyKind(Kind):
    """It spoils the way on which a finished body goes out."""

    send: Callable[[Fault, bytes], Response]
