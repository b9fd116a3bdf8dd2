"""What the database suffers: dead rows, who keeps them, connections, WAL, replicas."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from indexer.db.connection import Connection
from indexer.db.queries import load
from indexer.log import redact

_QUERIES = load("health")
_TABLE = _QUERIES["queue_table"]
_CONNECTIONS = _QUERIES["connections"]
_SERVER = _QUERIES["server"]
_REPLICAS = _QUERIES["replicas"]
_SLOTS = _QUERIES["slots"]
_LONG = _QUERIES["long_sessions"]
_PINS = _QUERIES["vacuum_pins"]

# None of our own transactions lives that long, and no vacuum notices shorter ones.
LONG_TRANSACTION = timedelta(seconds=10)
# Where a snapshot's age in seconds is unknown (a standby's, a slot's, a hidden
# session's), it is old after this many transactions: a vacuum's worth of dead rows.
OLD_TRANSACTIONS = 1000
# In quotes, with backslashes (E'…') or between dollars; the text may be cut anywhere.
_LITERAL = re.compile(
    r"""(?<!\w)[eE]'(?:[^'\\]|\\.|'')*(?:'|\\?$)
    | '(?:[^']|'')*'?
    | \$((?:[^\W\d]\w*)?)\$.*?(?:\$\1\$|$)""",
    re.VERBOSE,
)
_QUERY_LENGTH = 160


async def read_health(conn: Connection) -> dict[str, Any]:
    """Return what is to be known of the database, as far as the role may see it."""
    server = await _SERVER.row(conn)
    assert server is not None, "pg_stat_wal has one row"
    version, up, wal, records, notify, idle, sees_all, user = server
    return {
        "version": version,
        "uptime_seconds": up,
        "queue_table": await _queue_table(conn),
        "vacuum_pins": await _pins(conn),
        "long_transactions": await _long(conn),
        "connections": await _connections(conn),
        "wal_bytes": wal,
        "wal_records": records,
        "replicas": [
            {"name": name, "state": state, "lag_bytes": behind, "lag_seconds": lag}
            for name, state, behind, lag in await _REPLICAS.rows(conn)
        ],
        "slots": [
            {
                "name": name,
                "type": kind,
                "active": active,
                "retained_bytes": retained,
                "wal_status": wal_status,
            }
            for name, kind, active, retained, wal_status in await _SLOTS.rows(conn)
        ],
        "notification_queue_usage": notify,
        "idle_in_transaction_timeout_seconds": idle,
        "unseen": [] if sees_all else [_unseen(user)],
    }


def _unseen(user: str) -> str:
    return (
        "what sessions of other users do and since when, and how far replicas are: "
        f'grant pg_read_all_stats to "{user}"'
    )


async def _queue_table(conn: Connection) -> dict[str, Any]:
    row = await _TABLE.row(conn, schema=conn.schema)
    names = (
        "live_rows",
        "dead_rows",
        "updates",
        "hot_updates",
        "autovacuums",
        "vacuums",
        "last_autovacuum_seconds",
        "last_vacuum_seconds",
        "size_bytes",
        "counted_seconds",
        "autovacuum_threshold",
    )
    table = dict(zip(names, row or (None,) * len(names), strict=True))
    runs, since = table["autovacuums"], table["counted_seconds"]
    table["autovacuums_per_hour"] = runs * 3600 / since if runs and since else 0.0
    table["dead_rows_per_hour"] = _growth(table)
    return table


def _growth(table: dict[str, Any]) -> float | None:
    """Return how fast dead rows gather, from the last vacuum on; None before one."""
    since = table["last_vacuum_seconds"]
    if table["dead_rows"] is None or not since:
        return None
    return float(table["dead_rows"] * 3600 / max(since, 60.0))


async def _connections(conn: Connection) -> dict[str, Any]:
    row = await _CONNECTIONS.row(conn)
    names = ("used", "of_database", "of_indexer", "idle_in_transaction", "allowed")
    return dict(zip(names, row or (0,) * len(names), strict=True))


async def _long(conn: Connection) -> list[dict[str, Any]]:
    return [
        {
            "pid": pid,
            "user": user,
            "database": database,
            "application": application,
            "state": state,
            "seconds": age,
            "state_seconds": state_age,
            "query": _shown(query),
        }
        for pid, user, database, application, state, age, state_age, query in (
            await _LONG.rows(conn, age=LONG_TRANSACTION)
        )
    ]


async def _pins(conn: Connection) -> list[dict[str, Any]]:
    """Return who keeps dead rows from being removed for long, the worst first."""
    found = []
    for row in await _PINS.rows(conn):
        holder, name, owner, application, state, seconds, transactions, query = row
        if not _is_old(holder, state, seconds, transactions):
            continue
        found.append(
            {
                "holder": holder,
                "name": name,
                "user": owner,
                "application": application,
                "state": state,
                "seconds": seconds,
                "transactions": transactions,
                "query": _shown(query),
                "remedy": _remedy(holder, name, state),
            }
        )
    return found


def _is_old(
    holder: str, state: str | None, seconds: float | None, transactions: int
) -> bool:
    if holder == "replication slot" and state != "active":
        # It will not move on by itself.
        return True
    if seconds is not None:
        return seconds >= LONG_TRANSACTION.total_seconds()
    return transactions >= OLD_TRANSACTIONS


def _remedy(holder: str, name: str, state: str | None) -> str:
    if holder == "prepared transaction":
        quoted = name.replace("'", "''")
        return f"end it: rollback prepared '{quoted}' (or commit prepared)"
    if holder == "replication slot":
        quoted = name.replace("'", "''")
        return (
            "have its reader catch up, or if there is none any more: "
            f"select pg_drop_replication_slot('{quoted}')"
        )
    if holder == "standby":
        return (
            "a query on the standby holds it through hot_standby_feedback: end that "
            "query there"
        )
    if state is None:
        return (
            "what it does is hidden from this role; its owner or an administrator can "
            f"end it: select pg_terminate_backend({name})"
        )
    if state.startswith("idle in transaction"):
        return (
            f"end it: select pg_terminate_backend({name}); and set "
            "idle_in_transaction_session_timeout, so that it ends by itself"
        )
    return f"wait for its query, or end it: select pg_cancel_backend({name})"


def _shown(query: str | None) -> str | None:
    """Return a query without its literals, which may be anybody's secrets."""
    if query is None:
        return None
    text = redact(_LITERAL.sub("'…'", " ".join(query.split())))
    return text if len(text) <= _QUERY_LENGTH else text[: _QUERY_LENGTH - 1] + "…"
