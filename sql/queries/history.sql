-- name: lock_history
-- One maker of history partitions of a schema at a time.
select pg_catalog.pg_advisory_xact_lock(
    pg_catalog.hashtextextended('indexer.history ' || %(schema)s::text, 0)
);

-- name: history_days
-- The UTC days whose partitions should be there: today and those ahead.
select pg_catalog.to_char(day, 'YYYYMMDD'), extract(epoch from day)::bigint
from pg_catalog.generate_series(
    pg_catalog.date_trunc('day', now() at time zone 'UTC'),
    pg_catalog.date_trunc('day', now() at time zone 'UTC')
    + pg_catalog.make_interval(days => %(ahead)s::integer),
    interval '1 day'
) as day;

-- name: history_partitions
-- Every table that is or was a day of history: whether it is attached, whether a
-- detach of it was interrupted, and whether it is older than what is kept.
select
    c.relname,
    i.inhrelid is not null as is_attached,
    coalesce(i.inhdetachpending, false) as is_detaching,
    pg_catalog.to_date(pg_catalog.right(c.relname, 8), 'YYYYMMDD')
    < ((now() - %(retention)s::interval) at time zone 'UTC')::date as is_old
from pg_catalog.pg_class as c
inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
left join pg_catalog.pg_inherits as i on i.inhrelid = c.oid
where n.nspname = %(schema)s::text
    and c.relkind = 'r'
    and c.relname ~ '^jobs_history_[0-9]{{8}}$'
order by c.relname;

-- name: create_history_day
-- A table like its parent, with a CHECK that saves ATTACH from scanning it.
create table {schema}.{partition} (
    like {schema}.jobs_history including all,
    check (
        finished_at >= pg_catalog.to_timestamp({first})
        and finished_at < pg_catalog.to_timestamp({end})
    )
);

-- name: attach_history_day
-- ATTACH takes SHARE UPDATE EXCLUSIVE on the parent, so completions go on.
alter table {schema}.jobs_history
attach partition {schema}.{partition}
for values from (pg_catalog.to_timestamp({first})) to (pg_catalog.to_timestamp({end}));

-- name: detach_history_day
-- Outside a transaction block; never stands in front of a reader.
alter table {schema}.jobs_history detach partition {schema}.{partition} concurrently;

-- name: finalize_history_day
-- Finish a detach that was interrupted.
alter table {schema}.jobs_history detach partition {schema}.{partition} finalize;

-- name: drop_history_day
-- Only ever a table that was detached before.
drop table if exists {schema}.{partition};

-- name: age_out_failed_jobs
-- Failed jobs that nobody retried leave for history, a batch at a time, in id order.
with old as materialized (
    select j.id
    from {schema}.jobs as j
    where j.status = 'failed'
        and coalesce(j.last_error_at, j.created_at) < now() - %(retention)s::interval
    order by j.id
    limit %(batch)s::integer
    for update of j skip locked
),
aged as (
    delete from {schema}.jobs as j
    where j.id = any(array(select old.id from old))
    returning
        j.id, j.kind, j.payload, j.run_at, j.attempts, j.created_at, j.priority,
        j.errors, j.lost_leases, j.snoozes, j.claimed_at, j.progress, j.last_error
)
insert into {schema}.jobs_history (
    id, kind, payload, status, run_at, attempts, created_at, priority, errors,
    lost_leases, snoozes, claimed_at, finished_at, progress, last_error
)
select
    id, kind, payload, 'failed', run_at, attempts, created_at, priority, errors,
    lost_leases, snoozes, claimed_at, clock_timestamp(), progress, last_error
from aged
returning id;
