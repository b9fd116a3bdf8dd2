-- name: enqueue_jobs
-- Any number of jobs by one statement, so that they cost one notification.
with queued as (
    insert into {schema}.jobs (kind, payload, priority, run_at)
    select
        %(kind)s::text,
        item.payload::jsonb,
        %(priority)s::smallint,
        now() + %(run_after)s::interval
    from unnest(%(payloads)s::text[]) with ordinality as item (payload, position)
    order by item.position
    returning id
)
select id
from queued
order by id;

-- name: count_jobs
-- How many jobs of each kind are in each state.
select kind, status, count(*)
from {schema}.jobs
group by kind, status
order by kind, status;

-- name: count_unknown_kinds
-- Pending jobs that nobody here has a handler for.
select kind, count(*)
from {schema}.jobs
where status = 'pending' and kind <> all(%(kinds)s::text[])
group by kind
order by kind;

-- name: any_job_left
-- Whether something of these kinds is still to be run or being run, by anybody.
select exists (
    select
    from {schema}.jobs
    where status = 'running' and kind = any(%(kinds)s::text[])
) or exists (
    select
    from {schema}.jobs
    where status = 'pending' and kind = any(%(kinds)s::text[])
);

-- name: list_jobs
-- The newest jobs first, finished ones included.
select
    id, kind, payload::text, status, run_at, attempts, locked_by, locked_until,
    created_at, priority, errors, lost_leases, snoozes, claimed_at, finished_at,
    progress::text, result::text, last_error
from {schema}.jobs_all
where (%(ids)s::bigint[] is null or id = any(%(ids)s::bigint[]))
    and (%(kind)s::text is null or kind = %(kind)s::text)
    and (%(status)s::text is null or status = %(status)s::text)
    and (
        %(error)s::text is null
        or pg_catalog.strpos(lower(last_error), lower(%(error)s::text)) > 0
    )
order by id desc
limit %(limit)s::integer;

-- name: retry_failed_jobs
-- Failed jobs start again from zero, and somebody is woken for them.
with chosen as materialized (
    select id
    from {schema}.jobs
    where status = 'failed'
        and (%(ids)s::bigint[] is null or id = any(%(ids)s::bigint[]))
        and (%(kind)s::text is null or kind = %(kind)s::text)
        and (
            %(error)s::text is null
            or pg_catalog.strpos(lower(last_error), lower(%(error)s::text)) > 0
        )
    order by id
    for update
),
retried as (
    update {schema}.jobs as j
    set status = 'pending',
        run_at = clock_timestamp(),
        attempts = 0,
        errors = 0,
        lost_leases = 0,
        snoozes = 0,
        cancel_requested_at = null
    where j.id = any(array(select chosen.id from chosen))
    returning j.id
)
select
    count(*),
    case
        when count(*) > 0
            then pg_catalog.pg_notify('jobs_ready', %(schema)s::text)::text
    end
from retried;

-- name: cancel_waiting_jobs
-- Pending and failed jobs leave for history. Locked in id order, like everywhere.
with chosen as materialized (
    select id
    from {schema}.jobs
    where status in ('pending', 'failed')
        and (%(status)s::text is null or status = %(status)s::text)
        and (%(ids)s::bigint[] is null or id = any(%(ids)s::bigint[]))
        and (%(kind)s::text is null or kind = %(kind)s::text)
        and (
            %(error)s::text is null
            or pg_catalog.strpos(lower(last_error), lower(%(error)s::text)) > 0
        )
    order by id
    for update
),
cancelled as (
    delete from {schema}.jobs as j
    where j.id = any(array(select chosen.id from chosen))
    returning
        j.id, j.kind, j.payload, j.run_at, j.attempts, j.created_at, j.priority,
        j.errors, j.lost_leases, j.snoozes, j.claimed_at, j.progress, j.last_error
)
insert into {schema}.jobs_history (
    id, kind, payload, status, run_at, attempts, created_at, priority, errors,
    lost_leases, snoozes, claimed_at, finished_at, progress, last_error
)
select
    id, kind, payload, 'cancelled', run_at, attempts, created_at, priority, errors,
    lost_leases, snoozes, claimed_at, clock_timestamp(), progress, last_error
from cancelled;

-- name: request_cancel
-- A running job is told by the reply to its worker's next heartbeat.
with chosen as materialized (
    select id
    from {schema}.jobs
    where status = 'running'
        and cancel_requested_at is null
        and (%(status)s::text is null or status = %(status)s::text)
        and (%(ids)s::bigint[] is null or id = any(%(ids)s::bigint[]))
        and (%(kind)s::text is null or kind = %(kind)s::text)
        and (
            %(error)s::text is null
            or pg_catalog.strpos(lower(last_error), lower(%(error)s::text)) > 0
        )
    order by id
    for update
)
update {schema}.jobs as j
set cancel_requested_at = clock_timestamp()
where j.id = any(array(select chosen.id from chosen));
