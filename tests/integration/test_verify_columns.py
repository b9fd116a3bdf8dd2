"""Each column of each chain table is altered, emptied and filled, each in one block.

What a root covers is found from the rows alone; the rest is on a list, and found by
comparing with a node. What the columns are comes from the database's catalogue.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from indexer.devnode.server import Devnode, DevnodeConfig, running_devnode
from tests.support import postgres
from tests.support.program import run, watching
from tests.support.reader import differences

STORED = range(0, 500)
HEIGHTS = {
    "blocks": "number",
    "transactions": "block_number",
    "withdrawals": "block_number",
    "receipts": "block_number",
    "logs": "block_number",
}
# Where a value is there it becomes another one, or none.
OTHER = {
    "bytea": "case when length({c}) > 0 then set_byte({c}, 0, 255 - get_byte({c}, 0)) "
    "else '\\x01'::bytea end",
    "bytea[]": "array_append({c}, '\\x01'::bytea)",
    "jsonb": "case jsonb_typeof({c}) when 'array' then {c} || '[{{\"a\": \"0x1\"}}]' "
    'else {c} || \'{{"altered": "0x1"}}\' end',
    "timestamp with time zone": "{c} + interval '1 second'",
}
# Where none is there it becomes one.
SOME = {
    "bytea": "'\\x01'::bytea",
    "bytea[]": "array['\\x01'::bytea]",
    "jsonb": '\'{{"altered": "0x1"}}\'::jsonb',
    "timestamp with time zone": "now()",
}

# What no root covers: a node's word, which only a node can be asked about.
UNPROVABLE = {
    "altered": {
        "blocks": {"size"},
        "transactions": {"from_address", "gas_price"},
        "receipts": {
            *("from_address", "to_address", "contract_address"),
            *("effective_gas_price", "blob_gas_used", "blob_gas_price"),
        },
    },
    # Nodes leave out what others tell: the type of a legacy transaction, the one or
    # the other of v and parity, the bloom that follows from the logs.
    "emptied": {
        "blocks": {"size", "uncles"},
        "transactions": {"from_address", "type", "v", "y_parity"},
        "receipts": {
            *("from_address", "to_address", "contract_address", "type", "logs_bloom"),
            *("effective_gas_price", "blob_gas_used", "blob_gas_price"),
        },
    },
    # Fields that a row of its kind does not have, and so are in no hash.
    "filled": {
        "blocks": {"total_difficulty", "extra"},
        "transactions": {
            *("max_fee_per_gas", "max_priority_fee_per_gas", "max_fee_per_blob_gas"),
            *("chain_id", "y_parity", "blob_versioned_hashes"),
            *("access_list", "authorization_list", "extra"),
        },
        "withdrawals": {"extra"},
        "receipts": {
            *("to_address", "contract_address", "blob_gas_used", "blob_gas_price"),
            "extra",
        },
        "logs": {"extra"},
    },
}
# Of which rows it is so; a type that is not 0 is in the root.
_OF = {
    ("emptied", "transactions", "type"): "and type = 0",
    ("emptied", "transactions", "v"): "and type > 0",
    ("emptied", "receipts", "type"): "and type = 0",
}
# Nothing of these is in any block of this node, or in all.
NEVER_THERE = {
    "blocks": {"total_difficulty", "extra"},
    "transactions": {"extra"},
    "withdrawals": {"extra"},
    "receipts": {"root", "extra"},
    "logs": {"extra"},
}


@pytest.fixture(scope="module")
def node() -> Iterator[Devnode]:
    config = DevnodeConfig(profile="mixed", height=STORED.stop + 20, finality_depth=10)
    with running_devnode(config) as running:
        yield running


@pytest.fixture(scope="module")
def indexed(server: str, template: str, node: Devnode) -> Iterator[str]:
    """A database that is the chain, and is again after each repair."""
    with postgres.new_database(server, template) as url:
        where = ["--database-url", url, "--rpc-url", node.url]
        planned = run("plan", "--from", "0", "--to", str(STORED.stop), *where)
        assert planned.returncode == 0, planned.stderr
        worked = run("work", "--drain", *where)
        assert worked.returncode == 0, worked.stderr
        yield url


class Damager:
    """Damages each column in each way in a block of its own, none beside another's."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self.conn = conn
        self.done: dict[tuple[str, str, str], int] = {}
        self.never: dict[str, set[str]] = {}
        self._taken: set[int] = set()

    def damage_all(self) -> None:
        for table, height in HEIGHTS.items():
            columns = self.conn.execute(
                "select attname, atttypid::regtype::text, attnotnull from pg_attribute "
                "where attrelid = %s::regclass and attnum > 0 and not attisdropped",
                [f"indexer.{table}"],
            ).fetchall()
            for name, type_, is_required in columns:
                for way in ("altered",) if is_required else UNPROVABLE:
                    if name != height:
                        self._damage(way, table, name, type_)

    def _damage(self, way: str, table: str, name: str, type_: str) -> None:
        height = HEIGHTS[table]
        has = "is null" if way == "filled" else "is not null"
        has = f"{has} {_OF.get((way, table, name), '')}"
        rows = self.conn.execute(
            f"select distinct {height} from indexer.{table} where {name} {has} "
            "order by 1".encode()
        ).fetchall()
        free = (at for (at,) in rows if not self._taken & {at - 1, at, at + 1})
        at = next(free, None)
        if at is None:
            assert set(rows) <= {(each,) for each in self._taken}, (table, name, way)
            if way == "altered":
                self.never.setdefault(table, set()).add(name)
            return
        self._taken.add(at)
        value = {
            "altered": OTHER.get(type_, "{c} + 1000"),
            "emptied": "null",
            "filled": SOME.get(type_, "7"),
        }[way].format(c=name)
        self.conn.execute(
            f"update indexer.{table} set {name} = {value} where (tableoid, ctid) = "
            f"(select tableoid, ctid from indexer.{table} where {height} = {at} "
            f"and {name} {has} limit 1)".encode()
        )
        self.done[way, table, name] = at


def faulty(url: str, *options: str) -> tuple[set[int], dict[str, Any]]:
    """Return the heights that the command names, and its report."""
    found = run("verify", "--json", "--processes", "1", "--database-url", url, *options)
    assert found.returncode == 1, found.stderr
    report = json.loads(found.stdout)
    heights = {
        height
        for fault in report["faults"]
        for height in range(fault["first"], fault["last"] + 1)
    }
    return heights, report


def test_c3_each_column_is_proven_or_known_not_to_be_and_compared_with_a_node(
    indexed: str, node: Devnode
) -> None:
    with watching(indexed) as conn:
        damager = Damager(conn)
        damager.damage_all()
    assert damager.never == NEVER_THERE
    assert len(damager.done) > 150
    alone, report = faulty(indexed)
    missed = {what: at for what, at in damager.done.items() if at not in alone}
    assert missed.keys() == {
        (way, table, name)
        for way, tables in UNPROVABLE.items()
        for table, names in tables.items()
        for name in names
    }
    assert report["not_committed"]

    where = ["--rpc-url", node.url, "--every-field"]
    compared, report = faulty(indexed, *where, "--repair")
    assert set(damager.done.values()) <= compared
    assert report["against"]["not_answered"] == []
    assert report["against"]["blocks_compared"] > len(STORED) - len(damager.done)
    for (_, table, name), height in missed.items():
        [said] = [each for each in report["faults"] if each["first"] == height]
        assert said["kind"] == "not what the node gives"
        assert said["detail"].startswith(f"{table}: {name} of row ")
    again = run("verify", "--processes", "1", "--database-url", indexed, *where)
    assert again.returncode == 0, again.stdout
    assert differences(node.url, indexed, STORED) == []
