from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from indexer.ranges import BlockRange
from indexer.services.dashboard.chainmap import STATES, draw, view
from indexer.services.status.pace import Pace

heights = st.integers(0, 400)
ranges = st.lists(
    st.builds(lambda a, b: BlockRange(min(a, b), max(a, b)), heights, heights),
    max_size=5,
)


def jobs(**states: list[BlockRange]) -> dict[str, list[BlockRange]]:
    return {"failed": [], "running": [], "pending": [], "behind": [], **states}


@given(ranges, ranges, ranges, ranges, ranges, ranges, ranges, st.integers(1, 90))
def test_every_height_is_in_one_state_and_in_one_cell(
    planned: list[BlockRange],
    blocks: list[BlockRange],
    events: list[BlockRange],
    proven: list[BlockRange],
    failed: list[BlockRange],
    running: list[BlockRange],
    pending: list[BlockRange],
    cells: int,
) -> None:
    found = draw(
        planned,
        blocks,
        events,
        proven,
        jobs(failed=failed, running=running, pending=pending),
    )
    shown = view(found, wanted=None, cells=cells)
    if found.whole is None:
        assert shown["cells"] == []
        return
    each = [
        height
        for state in STATES
        for run in found.states[state]
        for height in run.heights()
    ]
    assert sorted(each) == list(found.whole.heights())
    assert len(shown["cells"]) <= cells
    sums = [sum(cell) for cell in shown["cells"]]
    assert sum(sums) == sum(shown["totals"].values()) == len(found.whole)
    assert set(sums[:-1]) <= {shown["cell_size"]}


def test_what_needs_a_look_stands_before_what_goes_on() -> None:
    found = draw(
        [BlockRange(0, 99)],
        [BlockRange(0, 49)],
        [BlockRange(0, 39)],
        [BlockRange(0, 9)],
        jobs(
            failed=[BlockRange(40, 44)],
            running=[BlockRange(40, 46), BlockRange(50, 59)],
            pending=[BlockRange(46, 47), BlockRange(50, 69)],
            behind=[BlockRange(48, 48)],
        ),
        head=109,
    )
    assert {state: runs for state, runs in found.states.items() if runs} == {
        "proven": [BlockRange(0, 9)],
        "stored": [BlockRange(10, 39)],
        "failed": [BlockRange(40, 44)],
        "in_work": [BlockRange(45, 46), BlockRange(50, 59)],
        "blocks_only": [BlockRange(47, 48)],
        "queued": [BlockRange(60, 69)],
        # A block whose receipts nobody is to fetch, and what was never stored.
        "missing": [BlockRange(49, 49), BlockRange(70, 99)],
        "unplanned": [BlockRange(100, 109)],
    }


def test_a_view_is_cut_to_what_is_known_and_lists_what_is_not_stored() -> None:
    found = draw([BlockRange(10, 99)], [], [], [], jobs())
    shown = view(found, wanted=BlockRange(90, 5000), cells=4)
    assert shown["view"] == {"from": 90, "to": 99}
    assert [sum(cell) for cell in shown["cells"]] == [3, 3, 3, 1]
    assert shown["runs"] == [{"state": "missing", "from": 90, "to": 99}]
    assert view(found, wanted=BlockRange(500, 600), cells=4)["view"] == {
        "from": 99,
        "to": 99,
    }


def test_the_pace_is_that_of_the_last_two_minutes() -> None:
    now = [0.0]
    pace = Pace(lambda: now[0])
    assert pace.look(blocks=1000, events=0) is None
    now[0] = 10.0
    seen = pace.look(blocks=1100, events=50)
    assert seen is not None and (seen.blocks, seen.events, seen.seconds) == (10, 5, 10)
    for _ in range(30):
        now[0] += 10.0
        seen = pace.look(blocks=1100, events=50)
    assert seen is not None and seen.blocks == 0 and seen.seconds <= 130
    now[0] += 1.0
    seen = pace.look(blocks=500, events=50)
    assert seen is not None and seen.blocks == 0
