"""A job as its claimer sees it."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from psycopg.rows import TupleRow

from indexer.jobs.payloads import MAX_NESTING, is_too_deep

Json: TypeAlias = dict[str, Any]


class Job(NamedTuple):
    """One claimed job; the field order is that of ``claim_jobs``.

    ``attempts`` counts this claim too. ``progress`` is what the last committed chunk
    of an earlier claim noted. Times are the database's.
    """

    id: int
    kind: str
    payload: Json
    claim_token: UUID
    attempts: int
    priority: int
    progress: Json | None
    errors: int
    lost_leases: int
    snoozes: int
    created_at: datetime
    run_at: datetime
    claimed_at: datetime
    deadline_at: datetime | None
    cancel_requested: bool

    @classmethod
    def from_row(cls, row: TupleRow) -> Job:
        """Read a row of ``claim_jobs``.

        Raises ValueError where payload or progress is no object that can be read:
        anybody may have written it, and PostgreSQL takes numbers and depths Python
        does not.
        """
        payload = _object("payload", row[2])
        progress = None if row[6] is None else _object("progress", row[6])
        return cls(*row)._replace(payload=payload, progress=progress)

    def summary(self) -> str:
        """Return kind and payload in one short line."""
        text = json.dumps(self.payload, ensure_ascii=True)
        return f"{self.kind} {text if len(text) <= 100 else text[:99] + '…'}"


def _object(what: str, text: str) -> Json:
    if is_too_deep(text):
        problem = f"it is nested deeper than {MAX_NESTING} levels"
        raise ValueError(f"its {what} cannot be read: {problem}")
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"its {what} cannot be read: {error}") from None
    if not isinstance(found, dict):
        problem = f"it is no JSON object but {type(found).__name__}"
        raise ValueError(f"its {what} cannot be read: {problem}")
    return found
