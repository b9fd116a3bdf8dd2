"""The queue under attack: nothing lost, nothing twice, nothing failed."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from indexer.db.migrate import migrate
from tests.support import ledger
from tests.support.chaos import LEASE_SECONDS, Chaos
from tests.support.jobs import queue
from tests.support.postgres import PrivateServer

# `make chaos` asks for more.
JOBS = int(os.environ.get("CHAOS_JOBS", "20000"))
SEED = int(os.environ.get("CHAOS_SEED", "20"))
_MILD = 20
# From accepting connections to the first effect after it.
_BUDGET_SECONDS = 5.0
# A round of attacks takes about 20 s; they end well before the jobs do, or longer.
_JOBS_A_ROUND = 10_000
_BATCH = 2_000
# Without one more job being finished.
_PATIENCE_SECONDS = 60.0

_ENQUEUE = """with queued as (
    insert into indexer.jobs (kind, payload)
    select
        case when n %% 4 = 0 then %s else %s end,
        jsonb_build_object('n', n)
    from generate_series(1, %s) as n
    returning id, kind
)
insert into indexer.enqueued select id, kind from queued"""


def test_q3_nothing_is_lost_doubled_or_failed_whatever_dies_stalls_or_is_cut_off(
    private_server: PrivateServer, tmp_path: Path
) -> None:
    asyncio.run(_prepare(private_server.url))
    with Chaos(private_server, tmp_path, seed=SEED) as chaos:
        for _ in range(JOBS // _BATCH):
            chaos.rows(_ENQUEUE, ledger.QUICK, ledger.KIND, _BATCH)

        def left() -> int:
            [[count]] = chaos.rows("select count(*) from indexer.jobs")
            return int(count)

        def is_over() -> bool:
            return left() < JOBS // 50

        began = time.time()
        for _ in range(max(1, JOBS // _JOBS_A_ROUND)):
            chaos.attack(is_over)
        chaos.settle()
        chaos.say(f"no more attacks, {left()} jobs left")
        end = time.monotonic() + _PATIENCE_SECONDS
        before = JOBS
        while count := left():
            if count < before:
                before, end = count, time.monotonic() + _PATIENCE_SECONDS
            assert time.monotonic() < end, f"{count} jobs are stuck; see {tmp_path}"
            chaos.say(f"{count} jobs left")
            time.sleep(1.0)
        seconds = time.time() - began
        codes = chaos.stop()
        try:
            _check(chaos)
            assert codes == [0] * len(codes)
            _report(chaos, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\nseed {SEED}, log in {tmp_path}") from error


async def _prepare(url: str) -> None:
    await migrate(url, schema="indexer")
    async with queue(url) as database, database.connection() as conn:
        await conn.execute(ledger.TABLE.encode())
        await conn.execute(b"create table indexer.enqueued (id bigint, kind text)")


def _check(chaos: Chaos) -> None:
    enqueued = dict(chaos.rows("select id, kind from indexer.enqueued"))
    done = chaos.rows(
        "select id, claim_token::text, status, attempts, lost_leases, errors"
        " from indexer.jobs_history"
    )
    assert len(enqueued) >= JOBS
    assert sorted(enqueued) == sorted(row[0] for row in done)
    assert {row[2] for row in done} == {"done"}
    # Outages cost no error and no attempt; what was lost is counted as lost.
    assert {row[5] for row in done} == {0}
    assert [row for row in done if row[3] != row[4] + 1] == []

    effects = chaos.rows("select job_id, token::text from indexer.effects")
    written = [row[0] for row in effects]
    wanted = {each for each, kind in enqueued.items() if kind == ledger.KIND}
    assert sorted(wanted - set(written)) == [], "lost"
    assert len(written) == len(set(written)), "doubled"
    # The claim that wrote is the claim that completed.
    completed = {(row[0], row[1]) for row in done}
    assert {each for each in completed if each[0] in wanted} == set(effects)
    # So it is where the completion follows in a batch; others may have written before.
    tallies = set(chaos.rows("select job_id, token::text from indexer.tallies"))
    assert {each for each in completed if each[0] not in wanted} <= tallies

    refusals = chaos.refusals()
    assert len(refusals) >= _MILD, "the attack was too mild"
    wrote = set(effects)
    assert [each for each in refusals if (each.job_id, each.token) in wrote] == []


def _report(chaos: Chaos, seconds: float) -> None:
    refusals = chaos.refusals()
    hows = {how: sum(each.how == how for each in refusals) for how, *_ in refusals}
    [[lost]] = chaos.rows("select sum(lost_leases) from indexer.jobs_history")
    gaps = [
        chaos.rows(
            "select extract(epoch from min(at)) - %s from indexer.effects"
            " where at > to_timestamp(%s)",
            at,
            at,
        )[0][0]
        for at in chaos.accepting_at
    ]
    told = (
        f"{JOBS} jobs in {seconds:.0f} s, {lost} leases lost, refused {hows},"
        f" {LEASE_SECONDS=}, work again after restarts: {[f'{g:.2f}' for g in gaps]}"
    )
    chaos.say(told)
    sys.stdout.write(f"\n{told}\n")
    assert max(gaps) < _BUDGET_SECONDS
