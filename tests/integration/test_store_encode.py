from __future__ import annotations

import random
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from indexer.db.connection import Connection, connect
from indexer.store.encode import SIGNATURE, TRAILER, encode_rows

NUMBERS = [
    0,
    1,
    9_999,
    10_000,
    10_001,
    99_990_000,
    999_999,
    1_000_000,
    10**16,
    10**77,
    2**64 - 1,
    2**256 - 1,
    -1,
    -10_000,
    *(random.Random(7).getrandbits(bits) for bits in range(1, 257)),
]


async def copied(
    conn: Connection, type_: str, values: list[object]
) -> list[tuple[object]]:
    await conn.execute(f"create temporary table copied (at int4, value {type_})")
    async with (
        conn.cursor() as cursor,
        cursor.copy("copy copied from stdin (format binary)") as copy,
    ):
        rows = list(enumerate(values))
        await copy.write(
            SIGNATURE + encode_rows(("int4", type_.split("(")[0]), rows) + TRAILER
        )
    found = await conn.execute("select value from copied order by at")
    result = await found.fetchall()
    await conn.execute("drop table copied")
    return [row[0] for row in result]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("numeric(78, 0)", [*map(Decimal, NUMBERS), None]),
        ("int8", [0, 2**63 - 1, -(2**63), None]),
        ("int4", [0, 2**31 - 1, -(2**31), None]),
        ("int2", [0, 1, 2**15 - 1, None]),
        ("bytea", [b"", b"\x00", bytes(1024), bytes(1025), b"\xff" * 70_000, None]),
        ("bytea[]", [[], [b""], [b"\x00" * 32, b"a"], None]),
        ("jsonb", [{}, [], {"a": [1, "é", None]}, None]),
        (
            "timestamptz",
            [
                datetime(1970, 1, 1, tzinfo=UTC),
                datetime(2015, 7, 30, 15, 26, 13, tzinfo=UTC),
                datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
                None,
            ],
        ),
    ],
)
async def test_every_value_comes_back_as_it_was_encoded(
    database_url: str, type_: str, values: list[object]
) -> None:
    given: list[object] = list(values)
    if type_.startswith("numeric"):
        given = [None if each is None else int(each) for each in values]  # type: ignore[call-overload]
    if type_ == "jsonb":
        given = ["{}", "[]", '{"a": [1, "é", null]}', None]
    conn = await connect(database_url, schema="indexer")
    async with conn:
        assert await copied(conn, type_, given) == values
