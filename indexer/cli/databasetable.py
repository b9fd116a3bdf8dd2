"""What the database suffers, in lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from indexer.cli.units import duration, size


def database_rows(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a name and a sentence for each thing worth knowing."""
    yield "queue's table", _dead_rows(found["queue_table"])
    pins = found["vacuum_pins"]
    if not pins:
        yield "vacuum", "nobody keeps it from removing dead rows"
    for pin in pins:
        yield "vacuum pinned", _pin(pin)
    pinning = {pin["name"] for pin in pins}
    for each in found["long_transactions"]:
        if str(each["pid"]) not in pinning:
            yield "long session", _session(each)
    yield "connections", _connections(found["connections"])
    yield "WAL", f"{size(found['wal_bytes'])} written so far"
    for each in found["replicas"]:
        yield "replica", _replica(each)
    for each in found["slots"]:
        state = "read" if each["active"] else "read by nobody"
        kept = size(each["retained_bytes"] or 0)
        yield "slot", f"{each['name']}: {state}, holds {kept} of WAL back"
    yield (
        "notifications",
        f"{100 * found['notification_queue_usage']:.1f} % of room used",
    )
    if not found["idle_in_transaction_timeout_seconds"]:
        yield (
            "advice",
            "idle_in_transaction_session_timeout is off: a forgotten transaction holds "
            "vacuum back until somebody ends it",
        )
    for each in found["unseen"]:
        yield "cannot be seen", each


def _dead_rows(table: dict[str, Any]) -> str:
    if table["dead_rows"] is None:
        return "the server counts nothing yet"
    text = (
        f"about {table['dead_rows']:,} dead rows beside {table['live_rows']:,}, "
        f"{size(table['size_bytes'])}"
    )
    if table["dead_rows_per_hour"] is not None:
        text += f", {table['dead_rows_per_hour']:,.0f} more an hour"
    if table["last_autovacuum_seconds"] is None:
        return f"{text}; autovacuum has not run yet"
    return (
        f"{text}; autovacuum ran {duration(table['last_autovacuum_seconds'])} ago, "
        f"{table['autovacuums_per_hour']:.1f} times an hour"
    )


def _pin(pin: dict[str, Any]) -> str:
    who = f"{pin['holder']} {pin['name']}"
    if pin["user"]:
        who += f" of {pin['user']}"
    if pin["application"]:
        who += f" ({pin['application']})"
    parts = [who]
    if pin["state"]:
        parts.append(pin["state"])
    if pin["seconds"] is not None:
        parts.append(f"for {duration(pin['seconds'])}")
    if pin["transactions"]:
        parts.append(f"{pin['transactions']:,} transactions back")
    if pin["query"]:
        parts.append(f"last query: {pin['query']}")
    return f"{', '.join(parts)}. {pin['remedy']}"


def _session(each: dict[str, Any]) -> str:
    return (
        f"{each['pid']} of {each['user']} ({each['application']}), {each['state']}, "
        f"its transaction is {duration(each['seconds'])} old: {each['query']}"
    )


def _connections(found: dict[str, Any]) -> str:
    return (
        f"{found['used']} of {found['allowed']} used, {found['of_indexer']} by this "
        f"program, {found['idle_in_transaction']} idle in a transaction"
    )


def _replica(each: dict[str, Any]) -> str:
    behind = "unknown" if each["lag_bytes"] is None else size(each["lag_bytes"])
    text = f"{each['name']}, {each['state']}: {behind} behind"
    if each["lag_seconds"] is not None:
        text += f", {duration(each['lag_seconds'])}"
    return text
