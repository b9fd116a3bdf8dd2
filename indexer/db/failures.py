"""Turn psycopg's errors into ours, by what the caller must do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as pg

from indexer.errors import DatabaseUnavailable, DiskFull, IndexerError, MigrationError
from indexer.log import redact

# Classes and codes that mean: reconnect, or try again after a jittered wait.
_RETRYABLE_PREFIXES = ("08", "57P0", "53")
_RETRYABLE = frozenset(
    {
        "25006",  # read-only: a standby was promoted or demoted under us
        "25P03",  # idle in transaction too long
        "40001",
        "40P01",
        "55P03",  # lock not available
        "57014",  # statement timeout or cancel
    }
)


# A file size limit (EFBIG) or quota reaches us as an internal error; only the words
# tell that a file could not grow.
_NO_ROOM = re.compile(
    r"could not (extend|write|truncate).*(too large|quota|no space|check free disk)"
    r"|no space left on device|file too large|disk quota exceeded",
    re.IGNORECASE,
)


def is_retryable(error: BaseException) -> bool:
    """Tell whether the same work may succeed later without a human."""
    if isinstance(error, DatabaseUnavailable):
        return True
    if not isinstance(error, psycopg.Error):
        return False
    code = error.sqlstate
    if code is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return code in _RETRYABLE or code.startswith(_RETRYABLE_PREFIXES)


def is_read_only(error: psycopg.Error) -> bool:
    """Tell whether the server takes no writes: it is a standby now."""
    return error.sqlstate == "25006"


def is_severed(error: psycopg.Error) -> bool:
    """Tell whether only another connection can help; some look alive all the same."""
    code = error.sqlstate
    return code is not None and (
        is_read_only(error) or code == "25P03" or code.startswith(("08", "57P0"))
    )


def translate(error: psycopg.Error, doing: str) -> IndexerError | None:
    """Return our error for psycopg's, or None where it is a defect to be seen."""
    reason = redact(str(error).strip().splitlines()[0] if str(error).strip() else "")
    if isinstance(error, pg.DiskFull) or _NO_ROOM.search(reason):
        return DiskFull(
            f"PostgreSQL has no room left ({reason}) while {doing}; the transaction "
            "was rolled back and nothing is half-written. Make room on the server's "
            "disk or add a tablespace; the work goes on by itself"
        )
    if isinstance(error, pg.InvalidPassword | pg.InvalidAuthorizationSpecification):
        return DatabaseUnavailable(
            f"{doing}: PostgreSQL refused the user or password ({reason}); check "
            "--database-url"
        )
    if isinstance(error, pg.InvalidCatalogName):
        return DatabaseUnavailable(
            f"{doing}: {reason}; create it or check --database-url"
        )
    if isinstance(error, pg.UndefinedTable | pg.InvalidSchemaName | pg.UndefinedColumn):
        return MigrationError(f"{doing}: {reason}; run `indexer migrate`")
    if isinstance(error, pg.InsufficientPrivilege):
        return MigrationError(
            f"{doing}: {reason}; grant it to the user in --database-url"
        )
    if is_retryable(error):
        return DatabaseUnavailable(
            f"{doing}: {reason or 'the connection was lost'}; check that PostgreSQL "
            "runs and that --database-url names it"
        )
    return None


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise ours in place of psycopg's errors; ``doing`` ends up in the message."""
    try:
        yield
    except psycopg.Error as error:
        ours = translate(error, doing)
        if ours is None:
            raise
        raise ours from error
