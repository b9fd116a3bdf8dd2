"""Where a claim's scan may start, and when it has to start from the front again.

What was claimed leaves dead entries at the front of the index. Usually they are swept
up; while somebody holds an old snapshot they stay, and a scan from the front reads all
of them (200,000 take 20 to 30 ms). So a lane's next scan starts behind what was claimed
last. That misses what comes to lie in front of a mark: jobs that another transaction
committed late, released ones, lanes that are new. Scans from the front find them, and
come as often as costs a hundredth of the time: where they are cheap, ten times a
second.
"""

from __future__ import annotations

from time import monotonic

from indexer.jobs.claims import FRONT, Lane, Mark
from indexer.jobs.job import Job

# A scan from the front that takes s seconds is not repeated for this many times s.
_REST = 99.0
# After a wake-up, which may be for what lies in front of a mark, only for this many.
_REST_WOKEN = 1.0
# However long a scan takes, nothing is overlooked for longer than this.
_LONGEST_REST_SECONDS = 10.0


class ScanMarks:
    """The marks of one claim loop; ``group`` is any name for a set of kinds."""

    def __init__(self) -> None:
        self._marks: dict[tuple[int, str], Mark] = {}
        self._lanes: set[int] = set()
        self._cost = 0.0
        self._ended: float | None = None
        self._is_woken = False
        self._magnitude: int | None = None

    @property
    def magnitude(self) -> int | None:
        """The table's size as a power of two, unless it may have grown since."""
        return self._magnitude

    @property
    def lanes(self) -> list[int]:
        """The priorities that were ever seen, most urgent first."""
        return sorted(self._lanes)

    @property
    def is_woken(self) -> bool:
        """Whether something happened since the last scan from the front began."""
        return self._is_woken

    def after(self, priority: int, group: str) -> Mark:
        """Return where a scan of a lane may start."""
        return self._marks.get((priority, group), FRONT)

    def wake(self) -> None:
        """Look from the front soon: something happened that may be there."""
        self._is_woken = True
        self._magnitude = None

    def rest_seconds(self) -> float:
        """Return for how long yet scans may start at the marks; 0 is not at all."""
        if self._ended is None:
            return 0.0
        rest = self._cost * (_REST_WOKEN if self._is_woken else _REST)
        return max(0.0, self._ended + min(rest, _LONGEST_REST_SECONDS) - monotonic())

    def begin(self) -> float:
        """Note that a scan from the front begins; give what :meth:`end` wants."""
        self._is_woken = False
        return monotonic()

    def end(self, began: float) -> None:
        """Note that it is over."""
        self._ended = monotonic()
        self._cost = self._ended - began

    def measure(self, lanes: list[Lane]) -> None:
        """Note how large the table is."""
        sizes = [lane.table_bytes.bit_length() for lane in lanes]
        self._magnitude = max(sizes, default=None)

    def see(self, priority: int) -> None:
        """Know a lane from now on."""
        self._lanes.add(priority)

    def claimed(self, priority: int, group: str, jobs: list[Job]) -> None:
        """Start behind the last of these from now on; they are in order."""
        self.see(priority)
        if jobs:
            mark = Mark(jobs[-1].run_at, jobs[-1].id)
            self._marks[priority, group] = max(mark, self.after(priority, group))

    def exhausted(self, lane: Lane, group: str) -> None:
        """Note that a scan found all that was due when the lanes were looked at."""
        mark = Mark(lane.seen_at, 0)
        priority = lane.priority
        self.see(priority)
        self._marks[priority, group] = max(mark, self.after(priority, group))
