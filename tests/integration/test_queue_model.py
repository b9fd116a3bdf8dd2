"""The queue's verbs in any order, beside a model of a page, also with stale tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from indexer.db.committed import rows_committed
from indexer.db.connection import Connection, connect
from indexer.db.queries import Query, load
from indexer.errors import ClaimLost
from indexer.jobs import claims, endings
from indexer.jobs.backlog import JobFilter, cancel, enqueue, retry_failed
from indexer.jobs.history import ensure_history
from indexer.jobs.reaper import reap
from tests.support.jobs import rows_on

KIND = "model"
LEASE = timedelta(seconds=60)
MAX_ERRORS, MAX_LOST = 3, 3
# Shorter than the test server has been up, or nothing is reaped.
_REAPERS_LEASE = timedelta(milliseconds=1)

_CLEAN = (
    "truncate {s}.jobs, {s}.jobs_history",
    "drop table if exists {s}.effects",
    "create table {s}.effects (job_id bigint, token uuid)",
)


@dataclass
class Expected:
    """What the model knows of a job."""

    status: str = "pending"
    token: UUID | None = None
    is_due: bool = True
    is_expired: bool = False
    is_cancelled: bool = False
    attempts: int = 0
    errors: int = 0
    lost: int = 0
    snoozes: int = 0
    wrote: list[UUID] = field(default_factory=list)

    def let_go(self, status: str = "pending", *, due: bool) -> None:
        self.status, self.token, self.is_due = status, None, due
        self.is_expired = False


Claim = tuple[int, UUID]


class QueueMachine(RuleBasedStateMachine):
    """Every rule does the same to the tables and to the model."""

    url: ClassVar[str]
    claimed = Bundle("claimed")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.conn: Connection = self.do(connect(self.url, schema="indexer"))
        self.jobs: dict[int, Expected] = {}
        self.tokens: set[UUID] = set()

    def do(self, work: Any) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(30):
                return await work

        return self.runner.run(bounded())

    def rows(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.do(
            rows_on(self.conn, statement, *parameters)
        )
        return found

    def teardown(self) -> None:
        self.do(self.conn.close())
        self.runner.close()

    @initialize()
    def begin(self) -> None:
        for statement in _CLEAN:
            self.rows(statement)
        self.do(ensure_history(self.conn, ahead=0))

    @rule(count=st.integers(1, 4))
    def enqueue(self, count: int) -> None:
        payloads = [{"n": n} for n in range(count)]
        for job_id in self.do(enqueue(self.conn, kind=KIND, payloads=payloads)):
            self.jobs[job_id] = Expected()

    @rule(target=claimed, limit=st.integers(1, 4))
    def claim(self, limit: int) -> Any:
        due = [
            job_id
            for job_id, job in self.jobs.items()
            if job.status == "pending" and job.is_due
        ]
        found = self.do(
            claims.claim(
                self.conn,
                worker="model",
                kinds=[KIND],
                limit=limit,
                lease=LEASE,
                priority=10,
            )
        )
        assert len(found) == min(limit, len(due))
        assert {job.id for job in found} <= set(due)
        for job in found:
            assert job.claim_token not in self.tokens
            self.tokens.add(job.claim_token)
            expected = self.jobs[job.id]
            expected.status, expected.token = "running", job.claim_token
            expected.attempts += 1
        return multiple(*((job.id, job.claim_token) for job in found))

    def holds(self, claim: Claim) -> bool:
        job = self.jobs[claim[0]]
        return job.status == "running" and job.token == claim[1]

    def try_to(
        self, claim: Claim, work: Callable[..., Awaitable[Any]], **parameters: Any
    ) -> bool:
        """Do what only the holder may; tell whether it was done, as it must be."""
        try:
            self.do(work(self.conn, job_id=claim[0], token=claim[1], **parameters))
        except ClaimLost:
            assert not self.holds(claim), "the holder was refused"
            return False
        assert self.holds(claim), "a stale token was accepted"
        return True

    @rule(claim=claimed)
    def heartbeat(self, claim: Claim) -> None:
        [row] = self.do(
            rows_committed(
                self.conn,
                load("jobs")["heartbeat_jobs"],
                ids=[claim[0]],
                tokens=[claim[1]],
                lease=LEASE,
            )
        )
        assert (row[2], row[3]) == (self.holds(claim), self.holds(claim))
        assert row[4] == (self.holds(claim) and self.jobs[claim[0]].is_cancelled)
        if self.holds(claim):
            self.jobs[claim[0]].is_expired = False

    @rule(claim=claimed)
    def complete(self, claim: Claim) -> None:
        async def write(conn: Connection, *, job_id: int, token: UUID) -> None:
            async with conn.transaction():
                await claims.fence(conn, job_id=job_id, token=token, lease=LEASE)
                await conn.execute(
                    b"insert into indexer.effects values (%s, %s)", [job_id, token]
                )
                await endings.complete(conn, job_id=job_id, token=token)

        if self.try_to(claim, write):
            self.jobs[claim[0]].wrote.append(claim[1])
            self.jobs[claim[0]].status = "done"

    @rule(claim=claimed)
    def chunk(self, claim: Claim) -> None:
        if self.try_to(claim, claims.fence, lease=LEASE):
            self.jobs[claim[0]].is_expired = False

    @rule(claim=claimed)
    def err(self, claim: Claim) -> None:
        if self.try_to(claim, endings.retry, error="no", max_errors=MAX_ERRORS):
            job = self.jobs[claim[0]]
            job.errors += 1
            failed = job.errors >= MAX_ERRORS
            job.let_go("failed" if failed else "pending", due=False)

    @rule(claim=claimed)
    def fail(self, claim: Claim) -> None:
        if self.try_to(claim, endings.fail, error="never"):
            self.jobs[claim[0]].errors += 1
            self.jobs[claim[0]].let_go("failed", due=False)

    @rule(claim=claimed)
    def snooze(self, claim: Claim) -> None:
        if self.try_to(claim, endings.snooze, delay=LEASE):
            job = self.jobs[claim[0]]
            job.snoozes += 1
            job.attempts -= 1
            job.let_go(due=False)

    @rule(claim=claimed)
    def release(self, claim: Claim) -> None:
        if self.try_to(claim, endings.release):
            self.jobs[claim[0]].attempts -= 1
            self.jobs[claim[0]].let_go(due=True)

    @rule(claim=claimed)
    def expire(self, claim: Claim) -> None:
        self.rows(
            "update {s}.jobs set locked_until = now() - interval '1 s'"
            " where id = %s and status = 'running'",
            claim[0],
        )
        self.jobs[claim[0]].is_expired = self.jobs[claim[0]].status == "running"

    @rule()
    def reap(self) -> None:
        taken = self.do(
            reap(self.conn, lease=_REAPERS_LEASE, max_lost_leases=MAX_LOST, batch=2)
        )
        expired = {job_id for job_id, job in self.jobs.items() if job.is_expired}
        assert {each.job_id for each in taken} == expired
        for job_id in expired:
            job = self.jobs[job_id]
            job.lost += 1
            failed = job.lost >= MAX_LOST
            job.let_go("failed" if failed else "pending", due=False)

    @rule()
    def wait(self) -> None:
        self.rows("update {s}.jobs set run_at = now() where status = 'pending'")
        for job in self.jobs.values():
            job.is_due = True

    @rule(claim=claimed)
    def cancel(self, claim: Claim) -> None:
        job = self.jobs[claim[0]]
        told = job.status == "running" and not job.is_cancelled
        ended = job.status in ("pending", "failed")
        which = JobFilter(ids=[claim[0]])
        assert self.do(cancel(self.conn, which=which)) == (int(ended), int(told))
        job.is_cancelled = job.is_cancelled or told
        if ended:
            job.let_go("cancelled", due=False)

    @rule(claim=claimed)
    def retry(self, claim: Claim) -> None:
        job = self.jobs[claim[0]]
        failed = job.status == "failed"
        which = JobFilter(ids=[claim[0]])
        assert self.do(retry_failed(self.conn, which=which)) == int(failed)
        if failed:
            job.let_go(due=True)
            job.attempts = job.errors = job.lost = job.snoozes = 0
            job.is_cancelled = False

    @invariant()
    def the_tables_are_what_the_model_says(self) -> None:
        found = self.rows(
            "select id, status, claim_token, attempts, errors, lost_leases, snoozes"
            " from {s}.jobs union all select id, status, claim_token, attempts,"
            " errors, lost_leases, snoozes from {s}.jobs_history order by 1"
        )
        assert found == [
            (
                *(job_id, job.status, job.token, job.attempts),
                *(job.errors, job.lost, job.snoozes),
            )
            for job_id, job in sorted(self.jobs.items())
        ]
        wrote = [
            (job_id, token) for job_id, job in self.jobs.items() for token in job.wrote
        ]
        effects = self.rows("select job_id, token from {s}.effects")
        assert sorted(effects) == sorted(wrote)
        assert all(len(job.wrote) <= 1 for job in self.jobs.values())


def run_machine(url: str, **chosen: Any) -> None:
    machine = type("Machine", (QueueMachine,), {"url": url})
    run_state_machine_as_test(
        machine,
        settings=settings(
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            stateful_step_count=40,
            **chosen,
        ),
    )


def test_q2_the_queue_does_what_its_model_does(database_url: str) -> None:
    run_machine(database_url, max_examples=20)


def test_q2_the_model_catches_a_fence_that_checks_no_token(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fence = load("jobs")["fence_job"]
    broken = fence.template.replace("and claim_token = %(token)s::uuid", "")
    assert broken != fence.template
    monkeypatch.setattr(claims, "_FENCE", Query("jobs", "fence_job", broken))

    with pytest.raises(AssertionError, match="stale token"):
        run_machine(
            database_url,
            max_examples=300,
            derandomize=True,
            phases=[Phase.generate],
            report_multiple_bugs=False,
        )
