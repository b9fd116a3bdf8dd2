"""The filter of ``eth_getLogs``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from indexer.devnode.messages import INVALID_PARAMS, RpcFailure


class ServedLog(NamedTuple):
    """A log as it is served, with what a filter looks at."""

    address: str
    topics: list[str]
    json: msgspec.Raw


class _Fields(msgspec.Struct):
    address: str
    topics: list[str]


class _Receipt(msgspec.Struct):
    logs: list[msgspec.Raw]


_RECEIPTS = msgspec.json.Decoder(list[_Receipt])
_FIELDS = msgspec.json.Decoder(_Fields)


def served_logs(receipts: bytes) -> list[ServedLog]:
    """Return the logs in a block's receipts, in order."""
    found = []
    for receipt in _RECEIPTS.decode(receipts):
        for log in receipt.logs:
            fields = _FIELDS.decode(log)
            found.append(ServedLog(fields.address, fields.topics, log))
    return found


class LogFilter(NamedTuple):
    """Which logs are asked for; ``None`` matches anything."""

    addresses: frozenset[str] | None
    topics: tuple[frozenset[str] | None, ...]

    @classmethod
    def parse(cls, spec: dict[str, Any]) -> LogFilter:
        """Read the ``address`` and ``topics`` of a filter object.

        Raises:
            RpcFailure: either is not of the shape the specification gives it.
        """
        topics = spec.get("topics")
        if topics is None:
            topics = []
        if not isinstance(topics, list) or len(topics) > 4:
            raise RpcFailure(INVALID_PARAMS, "topics must be a list of at most four")
        return cls(
            _one_of(spec.get("address"), 42, "address"),
            tuple(_one_of(topic, 66, "topic") for topic in topics),
        )

    def select(self, logs: Iterable[ServedLog]) -> list[msgspec.Raw]:
        """Return those of the logs that match."""
        return [log.json for log in logs if self._matches(log)]

    def _matches(self, log: ServedLog) -> bool:
        if self.addresses is not None and log.address not in self.addresses:
            return False
        if len(self.topics) > len(log.topics):
            return False
        return all(
            wanted is None or topic in wanted
            for wanted, topic in zip(self.topics, log.topics, strict=False)
        )


def _one_of(value: Any, length: int, name: str) -> frozenset[str] | None:  # noqa: ANN401 - JSON
    """Return the alternatives at one position; an empty list matches anything."""
    if value is None:
        return None
    options = value if isinstance(value, list) else [value]
    if None in options:
        # geth takes a null among the alternatives of a topic as "anything".
        return None
    for option in options:
        if not isinstance(option, str) or len(option) != length:
            raise RpcFailure(INVALID_PARAMS, f"invalid {name} {option!r}")
    return frozenset(option.lower() for option in options) or None
