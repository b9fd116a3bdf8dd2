"""Cut blocks that cannot be had out of a job, so that the rest of its range is done.

Each becomes a small job of its own, enqueued in the transaction that notes it as cut
out, and fails by its own count of errors with its own reason (C8).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta

from indexer.db.connection import Connection
from indexer.errors import IndexerError, PrunedHistory
from indexer.jobs import backlog
from indexer.jobs.job import Job
from indexer.ranges import BlockRange, difference, runs
from indexer.services.kinds import REPAIR_PRIORITY, range_payload

log = logging.getLogger(__name__)

# A range with more of them is not poisoned in places: it is the node, or the range.
_MOST = 8
# Whoever failed just now fails again at once.
_RUN_AFTER = timedelta(seconds=15)


class Isolation:
    """The blocks that were cut out of one job, over all its executions."""

    def __init__(self, job: Job, whole: BlockRange) -> None:
        self._job = job
        self._whole = whole
        noted = (job.progress or {}).get("cut")
        cut = noted if isinstance(noted, list) else []
        self._cut = {each for each in cut if isinstance(each, int)}

    @property
    def cut(self) -> list[int]:
        """The heights that were cut out so far, to be noted with the progress."""
        return sorted(self._cut)

    @property
    def rest(self) -> list[BlockRange]:
        """The job's range without them."""
        return difference([self._whole], runs(self._cut))

    def cut_out(self, failed: Mapping[int, IndexerError]) -> None:
        """Take blocks out of the job, to be enqueued apart.

        Raises what is wrong with the first where nothing can be cut out: it is the
        job's only block, there are too many, or history that was thrown away.
        """
        if not failed:
            return
        pruned = [each for each in failed.values() if isinstance(each, PrunedHistory)]
        if (
            len(self._whole) == 1
            or len(self._cut | failed.keys()) > _MOST
            or len(pruned) > 1
        ):
            raise failed[min(failed)]
        for number, error in sorted(failed.items()):
            log.warning(
                "block %d is cut out of job %d (%s) and tried apart: %s",
                number,
                self._job.id,
                self._job.kind,
                error,
            )
        self._cut |= failed.keys()

    async def enqueue(
        self, conn: Connection, failed: Mapping[int, IndexerError]
    ) -> None:
        """Enqueue a job for each block, in the transaction that notes it as cut."""
        await backlog.enqueue(
            conn,
            kind=self._job.kind,
            payloads=[range_payload(BlockRange(n, n)) for n in sorted(failed)],
            priority=REPAIR_PRIORITY,
            run_after=_RUN_AFTER,
        )
