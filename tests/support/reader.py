"""An independent reader: what a node answers, against what the tables hold.

Shares no code with the program. Columns and their types come from the database's
catalogue, fields from the node's own JSON, and every field of one must be found in the
other: in the column of its name, or in ``extra`` as the same value.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TABLES = {
    "blocks": "number",
    "transactions": "block_number",
    "withdrawals": "block_number",
    "receipts": "block_number",
    "logs": "block_number",
}
_RENAMED = {"from": "from_address", "to": "to_address"}
# Said once, in the block's own row, and checked to be the same there.
_REPEATED = {"blockHash": "hash", "blockTimestamp": "timestamp"}
_BATCH = 200


def ask(url: str, calls: list[tuple[str, list[Any]]]) -> list[Any]:
    """Return the results of a batch, in the order of the calls."""
    body = json.dumps(
        [
            {"jsonrpc": "2.0", "id": index, "method": method, "params": params}
            for index, (method, params) in enumerate(calls)
        ]
    ).encode()
    request = urllib.request.Request(
        url, body, {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        replies = {each["id"]: each for each in json.load(response)}
    for each in replies.values():
        assert "error" not in each, each
    return [replies[index]["result"] for index in range(len(calls))]


def differences(
    rpc_url: str,
    database_url: str,
    heights: range,
    *,
    schema: str = "indexer",
    events: bool = True,
) -> list[str]:
    """Return every way in which the tables differ from the node; empty is equal."""
    with psycopg.connect(database_url) as conn:
        comparison = _Comparison(conn, schema, events=events)
        for at in range(heights.start, heights.stop, _BATCH):
            piece = range(at, min(at + _BATCH, heights.stop))
            comparison.compare(rpc_url, piece)
        return comparison.problems


class _Comparison:
    def __init__(
        self, conn: psycopg.Connection[Any], schema: str, *, events: bool
    ) -> None:
        self.conn = conn
        self.schema = schema
        self.problems: list[str] = []
        self.tables = [
            name for name in _TABLES if events or name not in ("receipts", "logs")
        ]
        self.types = {name: self._types(name) for name in self.tables}

    def _types(self, table: str) -> dict[str, str]:
        rows = self.conn.execute(
            "select attname, atttypid::regtype::text from pg_attribute "
            "where attrelid = %s::regclass and attnum > 0 and not attisdropped",
            [f"{self.schema}.{table}"],
        ).fetchall()
        return dict(rows)

    def compare(self, rpc_url: str, heights: range) -> None:
        calls = [("eth_getBlockByNumber", [hex(each), True]) for each in heights]
        blocks = ask(rpc_url, calls)
        receipts: list[Any] = [[] for _ in heights]
        if "receipts" in self.tables:
            receipts = ask(
                rpc_url, [("eth_getBlockReceipts", [hex(each)]) for each in heights]
            )
        stored = {name: self._stored(name, heights) for name in self.tables}
        for height, block, its_receipts in zip(heights, blocks, receipts, strict=True):
            for name, items in _items(block, its_receipts).items():
                if name in self.tables:
                    rows = stored[name].get(height, [])
                    self._compare_items(name, height, block, items, rows)

    def _stored(self, table: str, heights: range) -> dict[int, list[dict[str, Any]]]:
        column = _TABLES[table]
        cursor = self.conn.execute(
            f"select * from {self.schema}.{table} "
            f"where {column} between %s and %s order by 1, 2".encode(),
            [heights[0], heights[-1]],
        )
        names = [each.name for each in cursor.description or ()]
        found: dict[int, list[dict[str, Any]]] = {}
        for row in cursor:
            values = dict(zip(names, row, strict=True))
            found.setdefault(values[column], []).append(values)
        return found

    def _compare_items(
        self,
        table: str,
        height: int,
        block: dict[str, Any],
        items: list[dict[str, Any]],
        rows: list[dict[str, Any]],
    ) -> None:
        if len(items) != len(rows):
            self.problems.append(
                f"{table} of {height}: {len(rows)} rows, the node has {len(items)}"
            )
            return
        for index, (item, row) in enumerate(zip(items, rows, strict=True)):
            for problem in self._compare_item(table, block, item, row):
                self.problems.append(f"{table} of {height} [{index}]: {problem}")

    def _compare_item(
        self, table: str, block: dict[str, Any], item: dict[str, Any], row: Any
    ) -> Iterator[str]:
        types = self.types[table]
        extra = dict(row.get("extra") or {})
        told = {"extra"}
        for field, value in _flattened(table, item):
            column = _RENAMED.get(field, _snake(field))
            if column in types:
                told.add(column)
                if row[column] != _value(value, types[column]):
                    yield f"{field} is {value!r}, the column holds {row[column]!r}"
            elif _is_implied(field, value, block):
                continue
            elif field not in extra or extra.pop(field) != value:
                yield f"{field} is {value!r}, found neither in a column nor in extra"
        for column in types:
            implied = table == "withdrawals" and column == "block_number"
            if column not in told and row[column] is not None and not implied:
                yield f"the column {column} holds {row[column]!r} out of nowhere"
        yield from (f"extra holds {field} out of nowhere" for field in extra)


def _is_implied(field: str, value: Any, block: dict[str, Any]) -> bool:
    """Tell whether the row need not say it: the block does, or being stored does."""
    if field == "removed":
        return value is False
    return field in _REPEATED and bool(value == block[_REPEATED[field]])


def _items(
    block: dict[str, Any], receipts: list[dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    return {
        "blocks": [block],
        "transactions": block["transactions"],
        "withdrawals": block.get("withdrawals") or [],
        "receipts": receipts,
        "logs": [log for each in receipts for log in each["logs"]],
    }


def _flattened(table: str, item: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    for field, value in item.items():
        if table == "blocks" and field in ("transactions", "withdrawals"):
            continue
        if table == "receipts" and field == "logs":
            continue
        if table == "logs" and field == "topics":
            yield from ((f"topic{index}", topic) for index, topic in enumerate(value))
        else:
            yield field, value


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _value(value: Any, type_: str) -> Any:
    if value is None:
        return None
    if type_ == "bytea":
        return bytes.fromhex(value[2:])
    if type_ == "bytea[]":
        return [bytes.fromhex(each[2:]) for each in value]
    if type_ == "jsonb":
        return value
    if type_ == "timestamp with time zone":
        return _EPOCH + timedelta(seconds=int(value, 16))
    return int(value, 16)
