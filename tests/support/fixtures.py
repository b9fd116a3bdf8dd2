"""Where the recorded replies of real nodes are, and what is in them.

They stand beside the repository, in ``shared/fixtures``; nothing else knows the path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "fixtures"

needs_fixtures = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the recorded replies are not there: {FOLDER}"
)


class Recorded(NamedTuple):
    """One recorded object: ``kind`` is block, transaction, receipts or logs."""

    file: str
    kind: str
    value: Any

    @property
    def text(self) -> bytes:
        return json.dumps(self.value, separators=(",", ":")).encode()


def load(file: str) -> Any:
    """Return a file's JSON as it is."""
    return json.loads((FOLDER / file).read_text(encoding="utf-8"))


def result(file: str) -> Any:
    """Return a file's JSON without the envelope it may have."""
    value = load(file)
    return value["result"] if isinstance(value, dict) and "result" in value else value


def recorded() -> list[Recorded]:
    """Return every block, transaction, receipt and log there is, file by file."""
    found: list[Recorded] = []
    if FOLDER.is_dir():
        for path in sorted(FOLDER.rglob("*.json")):
            file = path.relative_to(FOLDER).as_posix()
            if file not in ("errors.json", "execution-apis/genesis.json"):
                found.extend(_objects(file, load(file)))
    return found


def _objects(file: str, value: Any) -> Iterator[Recorded]:
    if isinstance(value, dict):
        yield from _object(file, value)
    elif isinstance(value, list) and value and all(map(_is_receipt, value)):
        if len({receipt["blockHash"] for receipt in value}) == 1:
            yield Recorded(file, "receipts", value)
        else:
            for receipt in value:
                yield Recorded(file, "receipts", [receipt])
    elif isinstance(value, list) and value and all(map(_is_log, value)):
        yield Recorded(file, "logs", value)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(file, item)


def _object(file: str, value: dict[str, Any]) -> Iterator[Recorded]:
    if "request" in value and "response" in value:
        yield from _objects(file, value["response"])
    elif isinstance(value.get("body"), str):
        yield from _objects(file, json.loads(value["body"]))
    elif "result" in value:
        yield from _objects(file, value["result"])
    elif "parentHash" in value:
        yield Recorded(file, "block", value)
    elif _is_receipt(value):
        yield Recorded(file, "receipts", [value])
    elif _is_log(value):
        yield Recorded(file, "logs", [value])
    elif "transactionIndex" in value:
        yield Recorded(file, "transaction", value)


def _is_receipt(value: Any) -> bool:
    return isinstance(value, dict) and "logsBloom" in value and "gasUsed" in value


def _is_log(value: Any) -> bool:
    return isinstance(value, dict) and "topics" in value
