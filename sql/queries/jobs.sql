-- name: claim_jobs
-- Take up to `limit` due jobs of one lane: pending to running, under a fresh token.
-- The scan starts behind (after_run_at, after_id): in front of a mark lie the dead
-- entries of what was claimed before, which an old snapshot keeps from being removed.
with due as materialized (
    -- Materialized, so that no plan runs the LIMIT twice; ordered as
    -- jobs_claimable_idx; SKIP LOCKED, so that claimers never wait for each other.
    select id
    from {schema}.jobs
    where status = 'pending'
        and priority = %(priority)s::smallint
        and kind = any(%(kinds)s::text[])
        and run_at <= now()
        and (run_at, id) > (%(after_run_at)s::timestamptz, %(after_id)s::bigint)
    order by run_at, id
    limit %(limit)s::integer
    for update skip locked
),
claimed as (
    update {schema}.jobs as j
    set status = 'running',
        -- Anybody may have inserted the largest integer: no row may break the claim.
        attempts = least(j.attempts, 2147483646) + 1,
        locked_by = %(worker)s::text,
        claim_token = pg_catalog.gen_random_uuid(),
        claimed_at = clock_timestamp(),
        locked_until = clock_timestamp() + %(lease)s::interval,
        deadline_at = clock_timestamp() + %(deadline)s::interval
    -- An array and not a join: whatever the statistics say, it is looked up by key.
    where j.id = any(array(select due.id from due))
    returning
        j.id, j.kind, j.payload, j.claim_token, j.attempts, j.priority, j.progress,
        j.errors, j.lost_leases, j.snoozes, j.created_at, j.run_at, j.claimed_at,
        j.deadline_at, j.cancel_requested_at
)
select
    id, kind, payload::text, claim_token, attempts, priority, progress::text, errors,
    lost_leases, snoozes, created_at, run_at, claimed_at, deadline_at,
    cancel_requested_at is not null
from claimed
order by run_at, id;

-- name: pending_lanes
-- Each priority with pending jobs, and when its earliest one is due: one index probe
-- a lane (a loose scan), however many jobs are waiting.
with recursive lane as (
    (
        select priority, run_at
        from {schema}.jobs
        where status = 'pending'
        order by priority, run_at, id
        limit 1
    )
    union all
    select following.priority, following.run_at
    from lane
    cross join lateral (
        select j.priority, j.run_at
        from {schema}.jobs as j
        where j.status = 'pending' and j.priority > lane.priority
        order by j.priority, j.run_at, j.id
        limit 1
    ) as following
)
select
    priority,
    run_at - now() as due_in,
    now() as seen_at,
    pg_catalog.pg_relation_size(
        pg_catalog.to_regclass(pg_catalog.quote_ident(%(schema)s::text) || '.jobs')
    ) as table_bytes
from lane
order by priority;

-- name: fence_job
-- Lock the job's row for this transaction, renew the lease, note the progress; no row
-- means the claim is lost. An expired lease alone takes nothing away.
update {schema}.jobs
set locked_until = clock_timestamp() + %(lease)s::interval,
    progress = coalesce(%(progress)s::jsonb, progress)
where id = %(job_id)s::bigint
    and claim_token = %(token)s::uuid
    and status = 'running'
returning id;

-- name: finish_job
-- Move a running job to history. Nothing happens where today's partition is not
-- there: an error would take the caller's transaction with it.
with moment as materialized (
    select clock_timestamp() as finished_at
),
home as materialized (
    select m.finished_at
    from moment as m
    where exists (
        select
        from pg_catalog.pg_inherits as i
        where i.inhrelid = pg_catalog.to_regclass(
            pg_catalog.quote_ident(%(schema)s::text) || '.jobs_history_'
            || pg_catalog.to_char(m.finished_at at time zone 'UTC', 'YYYYMMDD')
        )
            and not i.inhdetachpending
    )
),
finished as (
    delete from {schema}.jobs as j
    using home
    where j.id = %(job_id)s::bigint
        and j.claim_token = %(token)s::uuid
        and j.status = 'running'
    returning
        j.id, j.kind, j.payload, j.run_at, j.attempts, j.locked_by, j.claim_token,
        j.created_at, j.priority, j.errors, j.lost_leases, j.snoozes, j.claimed_at,
        home.finished_at, j.progress, j.last_error
),
kept as (
    insert into {schema}.jobs_history (
        id, kind, payload, status, run_at, attempts, locked_by, claim_token,
        created_at, priority, errors, lost_leases, snoozes, claimed_at, finished_at,
        progress, result, last_error
    )
    select
        id, kind, payload, %(status)s::text, run_at, attempts, locked_by, claim_token,
        created_at, priority, errors, lost_leases, snoozes, claimed_at, finished_at,
        progress, %(result)s::jsonb, last_error
    from finished
)
select
    exists (select from home) as has_home,
    exists (select from finished) as is_finished;

-- name: finish_jobs
-- Move any number of running jobs to history by one statement; the others' claims are
-- lost. Nothing happens where today's partition is not there.
with moment as materialized (
    select clock_timestamp() as finished_at
),
home as materialized (
    select m.finished_at
    from moment as m
    where exists (
        select
        from pg_catalog.pg_inherits as i
        where i.inhrelid = pg_catalog.to_regclass(
            pg_catalog.quote_ident(%(schema)s::text) || '.jobs_history_'
            || pg_catalog.to_char(m.finished_at at time zone 'UTC', 'YYYYMMDD')
        )
            and not i.inhdetachpending
    )
),
held as materialized (
    -- Locked in id order, like everywhere, and only then deleted.
    select j.id
    from unnest(%(ids)s::bigint[], %(tokens)s::uuid[]) as mine (id, token)
    inner join {schema}.jobs as j
        on j.id = mine.id and j.claim_token = mine.token
    where j.status = 'running' and exists (select from home)
    order by j.id
    for update of j
),
finished as (
    delete from {schema}.jobs as j
    using home
    where j.id = any(array(select held.id from held))
    returning
        j.id, j.kind, j.payload, j.run_at, j.attempts, j.locked_by, j.claim_token,
        j.created_at, j.priority, j.errors, j.lost_leases, j.snoozes, j.claimed_at,
        home.finished_at, j.progress, j.last_error
),
kept as (
    insert into {schema}.jobs_history (
        id, kind, payload, status, run_at, attempts, locked_by, claim_token,
        created_at, priority, errors, lost_leases, snoozes, claimed_at, finished_at,
        progress, last_error
    )
    select
        id, kind, payload, 'done', run_at, attempts, locked_by, claim_token,
        created_at, priority, errors, lost_leases, snoozes, claimed_at, finished_at,
        progress, last_error
    from finished
)
select
    exists (select from home) as has_home,
    array(select finished.id from finished) as finished_ids;

-- name: drop_finished_job
-- Finish a job whose history has no place to go: the work counts, not its record.
delete from {schema}.jobs
where id = %(job_id)s::bigint
    and claim_token = %(token)s::uuid
    and status = 'running'
returning id;

-- name: retry_job
-- Give a job back after an error, later each time; `failed` once the limit is reached.
update {schema}.jobs
set status = case
        when errors >= %(max_errors)s::integer - 1 then 'failed' else 'pending'
    end,
    run_at = case
        when errors >= %(max_errors)s::integer - 1 then run_at
        else clock_timestamp() + pg_catalog.make_interval(
            secs => least(
                3600,
                30 * pg_catalog.power(2::float8, least(errors, 19) + 1)
                * (0.5 + pg_catalog.random())
            )
        )
    end,
    errors = least(errors, 2147483646) + 1,
    last_error = %(error)s::text,
    last_error_at = clock_timestamp(),
    locked_by = null,
    claim_token = null,
    locked_until = null,
    deadline_at = null
where id = %(job_id)s::bigint
    and claim_token = %(token)s::uuid
    and status = 'running'
returning status;

-- name: snooze_job
-- Give a job back because something outside is down; costs neither attempt nor error.
update {schema}.jobs
set status = 'pending',
    run_at = clock_timestamp() + %(delay)s::interval,
    attempts = greatest(attempts - 1, 0),
    snoozes = least(snoozes, 2147483646) + 1,
    last_error = coalesce(%(error)s::text, last_error),
    last_error_at = case
        when %(error)s::text is null then last_error_at else clock_timestamp()
    end,
    locked_by = null,
    claim_token = null,
    locked_until = null,
    deadline_at = null
where id = %(job_id)s::bigint
    and claim_token = %(token)s::uuid
    and status = 'running'
returning status;

-- name: release_job
-- Hand a job back untouched, and wake somebody to take it at once.
with released as (
    update {schema}.jobs
    set status = 'pending',
        attempts = greatest(attempts - 1, 0),
        locked_by = null,
        claim_token = null,
        locked_until = null,
        deadline_at = null
    where id = %(job_id)s::bigint
        and claim_token = %(token)s::uuid
        and status = 'running'
    returning status
)
select status, pg_catalog.pg_notify('jobs_ready', %(schema)s::text)::text
from released;

-- name: running_claim
-- What a claim has come to. The lock waits for a commit of ours that may still be
-- under way in a connection that was lost.
select progress
from {schema}.jobs
where id = %(job_id)s::bigint
    and claim_token = %(token)s::uuid
    and status = 'running'
for no key update;

-- name: finished_claim
-- Whether a claim ended in history: an own statement after running_claim, for it must
-- see what was committed while that one waited.
select progress
from {schema}.jobs_history
where id = %(job_id)s::bigint
    and claim_token = %(token)s::uuid
limit 1;

-- name: running_claims
-- Which of these claims still run; waits like running_claim, in id order.
select j.id
from {schema}.jobs as j
inner join unnest(%(ids)s::bigint[], %(tokens)s::uuid[]) as mine (id, token)
    on mine.id = j.id and mine.token = j.claim_token
where j.status = 'running'
order by j.id
for no key update of j;

-- name: finished_claims
-- Which of these claims ended in history: like finished_claim a statement of its own.
select h.id
from {schema}.jobs_history as h
inner join unnest(%(ids)s::bigint[], %(tokens)s::uuid[]) as mine (id, token)
    on mine.id = h.id and mine.token = h.claim_token
where h.id = any(%(ids)s::bigint[]);

-- name: heartbeat_jobs
-- Renew every claim of a worker, and tell of each what became of it.
with mine as (
    select id, token
    from unnest(%(ids)s::bigint[], %(tokens)s::uuid[]) as claim (id, token)
),
free as materialized (
    -- In id order like everybody; a row that a chunk of our own has locked is stepped
    -- past, for its fence renews the lease anyway. A job one lease past its deadline
    -- is let go: its process is not even able to give it back.
    select j.id
    from {schema}.jobs as j
    inner join mine on mine.id = j.id and mine.token = j.claim_token
    where j.status = 'running'
        and (j.deadline_at is null or j.deadline_at > now() - %(lease)s::interval)
    order by j.id
    for update of j skip locked
),
renewed as (
    update {schema}.jobs as j
    set locked_until = clock_timestamp() + %(lease)s::interval
    where j.id = any(array(select free.id from free))
    returning j.id
)
select
    mine.id,
    mine.token,
    j.id is not null as is_held,
    renewed.id is not null as is_renewed,
    j.cancel_requested_at is not null as is_cancelled,
    coalesce(j.deadline_at <= now(), false) as is_overdue
from mine
left join {schema}.jobs as j
    on j.id = mine.id and j.claim_token = mine.token and j.status = 'running'
left join renewed on renewed.id = mine.id;

-- name: reap_jobs
-- Take back a batch of claims whose lease is over; `failed` once a job lost too many.
with expired as materialized (
    select id
    from {schema}.jobs
    where status = 'running'
        -- None at all was written by hand, and nobody else would ever end it.
        and (locked_until is null or locked_until < now())
        -- After a restart of the server nobody could renew: give everyone a lease.
        and pg_catalog.pg_postmaster_start_time() < now() - %(lease)s::interval
    order by id
    limit %(batch)s::integer
    for update skip locked
)
update {schema}.jobs as j
set status = case
        when j.lost_leases >= %(max_lost_leases)s::integer - 1 then 'failed'
        else 'pending'
    end,
    run_at = case
        when j.lost_leases >= %(max_lost_leases)s::integer - 1 then j.run_at
        else clock_timestamp() + pg_catalog.make_interval(
            secs => least(
                3600,
                30 * pg_catalog.power(2::float8, least(j.lost_leases, 19) + 1)
                * (0.5 + pg_catalog.random())
            )
        )
    end,
    lost_leases = least(j.lost_leases, 2147483646) + 1,
    last_error = case
        when j.lost_leases >= %(max_lost_leases)s::integer - 1
            then 'lost its lease ' || (j.lost_leases::bigint + 1)::text
                || ' times, last by worker ' || coalesce(j.locked_by, 'unknown')
        else j.last_error
    end,
    last_error_at = clock_timestamp(),
    locked_by = null,
    claim_token = null,
    locked_until = null,
    deadline_at = null
where j.id = any(array(select expired.id from expired))
returning j.id, j.kind, j.status, j.lost_leases;

-- name: lapsed_claims
-- How many claims are past their lease, and not taken back yet.
select count(*)
from {schema}.jobs
where status = 'running' and (locked_until is null or locked_until < now());

-- name: end_silent_copies
-- Whoever is stopped in the middle of a COPY keeps its locks: the server waits for data
-- as no timeout of its own ends, while the client's kernel answers the keepalives.
select
    pid,
    extract(epoch from now() - query_start)::float8 as seconds
from (
    select
        pid,
        query_start,
        pg_catalog.pg_terminate_backend(pid, 1000) as is_ended
    from pg_catalog.pg_stat_activity
    where
        datname = current_database()
        and usename = current_user
        and state = 'active'
        and wait_event = 'ClientRead'
        and query_start < now() - %(silence)s::interval
        and (
            query like %(straight)s::text
            or query like 'copy "pg\_temp"."stage\_%%'
        )
) as ended
where is_ended;

-- name: release_strays
-- Hand back what this worker holds without knowing: its claim was committed, but the
-- answer got lost with the connection. The worker's name is new with each process.
with stray as materialized (
    select id
    from {schema}.jobs
    where status = 'running'
        and locked_by = %(worker)s::text
        and id <> all(%(known)s::bigint[])
    order by id
    for update skip locked
),
released as (
    update {schema}.jobs as j
    set status = 'pending',
        attempts = greatest(j.attempts - 1, 0),
        locked_by = null,
        claim_token = null,
        locked_until = null,
        deadline_at = null
    where j.id = any(array(select stray.id from stray))
    returning j.id
)
select
    count(*),
    case
        when count(*) > 0
            then pg_catalog.pg_notify('jobs_ready', %(schema)s::text)::text
    end
from released;
