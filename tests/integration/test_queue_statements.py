from __future__ import annotations

import re
from string import Formatter

import psycopg
import pytest
from psycopg.pq import ExecStatus

from indexer.db.queries import Query, bind, load, owners
from tests.support.postgres import in_database

STATEMENTS = [query for owner in owners() for query in load(owner).values()]
_STAGED = re.compile(r"pg_temp\.stage_(\w+)")
_PARAMETER = re.compile(r"%\((\w+)\)s")


@pytest.mark.parametrize("query", STATEMENTS, ids=repr)
def test_every_statement_prepares_against_the_migrated_schema(
    server: str, template: str, query: Query
) -> None:
    # In the template itself, which preparing leaves as it is.
    with psycopg.connect(in_database(server, template)) as conn:
        for table in _STAGED.findall(query.template):
            conn.execute(f"create temp table stage_{table} (like indexer.{table})")
        result = conn.pgconn.prepare(b"", _as_sent(query))
        assert result.status == ExecStatus.COMMAND_OK, result.get_error_message()
        conn.rollback()


def _as_sent(query: Query) -> bytes:
    # What is put into utility statements is only parsed, so any name will do.
    places = {name for _, name, _, _ in Formatter().parse(query.template) if name}
    parts = {name: name for name in places} | {"schema": "indexer"}
    text = bind(query.template, **parts).decode()
    names = list(dict.fromkeys(_PARAMETER.findall(text)))
    text = _PARAMETER.sub(lambda match: f"${names.index(match[1]) + 1}", text)
    return text.replace("%%", "%").encode()


@pytest.mark.parametrize("query", STATEMENTS, ids=repr)
def test_every_parameter_is_cast_and_every_statement_says_what_it_does(
    query: Query,
) -> None:
    assert query.template.startswith("-- "), f"{query!r} does not say what it does"
    for match in _PARAMETER.finditer(query.template):
        rest = query.template[match.end() :]
        assert rest.startswith("::"), f"{query!r}: {match[0]} has no cast"
