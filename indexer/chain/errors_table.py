"""What to do about an error a node answers with, as a table.

Codes alone do not tell: -32005 is a rate limit, a quota, a range or a method that is
switched off, depending on who says it. So texts come first, the most telling first,
then codes, then the HTTP status. Recorded replies of real providers are the test.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple


class Action(Enum):
    """What the caller should do."""

    RETRY = "retry"
    BACKOFF = "backoff"
    SPLIT = "split"
    FAILOVER = "failover"
    PRUNED = "pruned"
    UNSUPPORTED = "unsupported"
    FATAL = "fatal"


class Rule(NamedTuple):
    """The first rule whose conditions all hold decides; ``None`` holds always."""

    action: Action
    text: re.Pattern[str] | None = None
    codes: frozenset[int] | None = None
    statuses: frozenset[int] | None = None


def _text(action: Action, *patterns: str, codes: tuple[int, ...] = ()) -> Rule:
    return Rule(
        action,
        text=re.compile("|".join(patterns), re.IGNORECASE),
        codes=frozenset(codes) or None,
    )


def _codes(action: Action, *codes: int) -> Rule:
    return Rule(action, codes=frozenset(codes))


def _status(action: Action, *statuses: int) -> Rule:
    return Rule(action, statuses=frozenset(statuses))


RULES: Final = (
    # A quota is not over in a second: another endpoint, not another try.
    _text(
        Action.FAILOVER,
        r"monthly|daily|capacity limit exceeded|billing|payment required",
        r"upgrade (?:to|your)|plan does not|not available on",
    ),
    _text(
        Action.SPLIT, r"\bbatch\b.*(?:more than|too large|too big|limit|exceed|size)"
    ),
    _text(Action.SPLIT, r"(?:response|request|content|body).*(?:too large|too big)"),
    _text(Action.FATAL, r"addresses specified in query"),
    _text(
        Action.SPLIT,
        r"(?:log )?response size.*exceed",
        r"block range",
        r"blocks? distance",
        r"more than [\d,]+ results|max results|exceeds limit of [\d,]+",
        r"limited to a [\d,]+ range|limit the query to",
    ),
    _text(
        Action.BACKOFF,
        r"too many requests|rate limit|request rate|rate exceeded",
        r"compute units per second|over capacity|throttl",
    ),
    _text(Action.FAILOVER, r"no backend is currently healthy"),
    # The tag is what it does not know, not the block.
    _text(Action.UNSUPPORTED, r"(?:finalized|safe) block not found", r"unknown tag"),
    _text(Action.PRUNED, r"pruned|missing trie node|state .* is not available"),
    # Raised for a block whose receipts this method cannot give; others may.
    _text(Action.FATAL, r"receipts length mismatch|less receipts than expected"),
    _text(
        Action.RETRY,
        r"header not found|unknown block|block not found",
        r"blocks specified in filter .* cannot be found",
        r"timed? ?out|try again|temporarily|unavailable|still syncing",
    ),
    _text(
        Action.UNSUPPORTED,
        r"method .*(?:not found|not supported|does not exist|not available|disabled)",
        r"(?:unsupported|unknown) method|not whitelisted|method not allowed",
    ),
    _text(Action.FAILOVER, r"^limit exceeded$", codes=(-32005,)),
    _codes(Action.UNSUPPORTED, -32601),
    _codes(Action.PRUNED, 4444),
    _codes(Action.FAILOVER, 30),
    _codes(Action.BACKOFF, 429, -32005, -32007, -32016, -32029, -32097),
    _codes(Action.SPLIT, -32614, -32003),
    _codes(Action.FATAL, -32602, -32600, -32700),
    _status(Action.BACKOFF, 429),
    _status(Action.SPLIT, 413),
    _status(Action.FAILOVER, 401, 402, 403, 404, 410),
)


def classify(http_status: int | None, code: int | None, text: str) -> Action:
    """Say what to do about an error object, or about an answer without one.

    What no rule knows is worth another try: it may be a hiccup, and whoever tries
    counts how often.
    """
    for rule in RULES:
        if (
            (rule.text is None or rule.text.search(text))
            and (rule.codes is None or code in rule.codes)
            and (rule.statuses is None or http_status in rule.statuses)
        ):
            return rule.action
    return Action.RETRY
