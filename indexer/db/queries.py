"""Named SQL statements, read from ``sql/queries`` and bound at import.

A statement begins with ``-- name: claim_jobs`` and a comment line saying what it
does, has named parameters (``%(lease)s::interval``) and says ``{schema}`` wherever
a table of ours stands. Nobody sets ``search_path``: it is session state, which a
pooler may hand to another chain's worker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from psycopg import sql
from psycopg.rows import TupleRow

from indexer.db.connection import Connection

_NAME = re.compile(r"^-- name: (?P<name>[a-z][a-z0-9_]*)\s*$", re.MULTILINE)


def sql_directory() -> Path:
    """Return the folder with ``migrations`` and ``queries``.

    An installed wheel carries it as ``indexer/_sql``; a checkout reads it in place.
    """
    package = Path(__file__).resolve().parent.parent
    installed = package / "_sql"
    return installed if installed.is_dir() else package.parent / "sql"


class Query:
    """One named statement; ``on(schema)`` gives its text for a schema."""

    def __init__(self, owner: str, name: str, template: str) -> None:
        self.owner = owner
        self.name = name
        self.template = template
        self._bound: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"<Query {self.owner}.{self.name}>"

    def on(self, schema: str) -> bytes:
        """Return the statement with every table qualified by ``schema``."""
        bound = self._bound.get(schema)
        if bound is None:
            bound = bind(self.template, schema=schema)
            self._bound[schema] = bound
        return bound

    def fixed(self, note: str, **parameters: int) -> Query:
        """Return the statement with some integer parameters written into it.

        The server keeps one plan for a prepared statement only where not knowing the
        parameters makes it no dearer; of a LIMIT it then expects a tenth of the table,
        and so it would plan anew each time. Another ``note`` is another statement,
        with a plan of its own.
        """
        text = self.template
        for name, value in parameters.items():
            text = text.replace(f"%({name})s", str(value))
        return Query(self.owner, self.name, f"{text}\n-- {note}")

    async def define(self, conn: Connection, **parts: str | int) -> None:
        """Execute a utility statement with identifiers and literals put in."""
        await conn.execute(bind(self.template, schema=conn.schema, **parts))

    async def run(self, conn: Connection, **parameters: object) -> int:
        """Execute and return how many rows were changed."""
        cursor = await conn.execute(self.on(conn.schema), parameters or None)
        return cursor.rowcount

    async def rows(self, conn: Connection, **parameters: object) -> list[TupleRow]:
        """Execute and return every row."""
        cursor = await conn.execute(self.on(conn.schema), parameters or None)
        return await cursor.fetchall()

    async def row(self, conn: Connection, **parameters: object) -> TupleRow | None:
        """Execute and return the first row, if there is one."""
        cursor = await conn.execute(self.on(conn.schema), parameters or None)
        return await cursor.fetchone()


def bind(template: str, **parts: str | int) -> bytes:
    """Put quoted identifiers (str) and literals (int) into ``{name}`` places.

    Literals are for utility statements (DDL), which take no parameters.
    """
    quoted = {
        key: sql.Literal(part) if isinstance(part, int) else sql.Identifier(part)
        for key, part in parts.items()
    }
    # The template is one of our own files, so it is as trusted as a literal.
    return sql.SQL(template).format(**quoted).as_bytes(None)


class Queries(Mapping[str, Query]):
    """The statements of one file, by name."""

    def __init__(self, owner: str, statements: dict[str, Query]) -> None:
        self.owner = owner
        self._statements = statements

    def __getitem__(self, name: str) -> Query:
        try:
            return self._statements[name]
        except KeyError:
            raise LookupError(
                f"sql/queries/{self.owner}.sql has no statement named {name}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._statements)

    def __len__(self) -> int:
        return len(self._statements)


@cache
def load(owner: str) -> Queries:
    """Read ``sql/queries/<owner>.sql``.

    Raises LookupError where the file is missing or names a statement twice.
    """
    path = sql_directory() / "queries" / f"{owner}.sql"
    if not path.is_file():
        raise LookupError(f"there is no {path}")
    return Queries(owner, _parse(owner, path.read_text(encoding="utf-8")))


def owners() -> list[str]:
    """Return the names of all files of statements."""
    return sorted(path.stem for path in (sql_directory() / "queries").glob("*.sql"))


def _parse(owner: str, text: str) -> dict[str, Query]:
    statements: dict[str, Query] = {}
    marks = list(_NAME.finditer(text))
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        name = mark["name"]
        body = text[mark.end() : following.start() if following else len(text)]
        if name in statements:
            raise LookupError(f"sql/queries/{owner}.sql names {name} twice")
        statements[name] = Query(owner, name, body.strip().rstrip(";"))
    return statements
