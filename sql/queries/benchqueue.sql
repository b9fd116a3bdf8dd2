-- name: fill_pending
-- Any number of due jobs of a kind, a microsecond apart, so that they have an order.
insert into {schema}.jobs (kind, payload, run_at)
select
    %(kind)s::text,
    pg_catalog.jsonb_build_object(
        'n', n, 'pad', pg_catalog.repeat('x', %(pad)s::integer)
    ),
    now() - %(age)s::interval + n * interval '1 microsecond'
from pg_catalog.generate_series(1, %(count)s::integer) as n;

-- name: fill_history
-- Any number of jobs that were done today.
insert into {schema}.jobs_history (
    id, kind, payload, status, run_at, attempts, created_at, priority, errors,
    lost_leases, snoozes, claimed_at, finished_at
)
select
    -n, 'old', '{{}}', 'done', now(), 1, now(), 10, 0, 0, 0, now(), now()
from pg_catalog.generate_series(1, %(count)s::integer) as n;

-- name: kill_all
-- Leave nothing but dead rows behind.
delete from {schema}.jobs;

-- name: take_snapshot
-- In a REPEATABLE READ transaction: keep every row that is there from being removed.
select count(*)
from {schema}.jobs;

-- name: tidy_jobs
-- Begin with clean tables and true statistics.
vacuum (analyze) {schema}.jobs, {schema}.jobs_history;

-- name: drained
-- How many jobs were finished, and the seconds from the first claim to the last end.
select
    count(*),
    coalesce(extract(epoch from max(finished_at) - min(claimed_at)), 0)::float8
from {schema}.jobs_history
where status = 'done' and kind = %(kind)s::text;

-- name: wal_position
-- How many bytes of WAL were ever written.
select pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(), '0/0')::bigint;

-- name: row_versions
-- What the table's rows went through, as the statistics know by now.
select
    pg_catalog.pg_stat_get_tuples_updated(c.oid),
    pg_catalog.pg_stat_get_tuples_hot_updated(c.oid),
    pg_catalog.pg_stat_get_tuples_deleted(c.oid),
    pg_catalog.pg_stat_get_dead_tuples(c.oid)
from pg_catalog.pg_class as c
where c.oid = pg_catalog.to_regclass(
    pg_catalog.quote_ident(%(schema)s::text) || '.jobs'
);

-- name: work_of_another_client
-- A small transaction of an application: one row found by its key, changed, committed.
insert into {schema}.endpoints (name, state)
values ('bench', 'ok')
on conflict (name) do update set updated_at = clock_timestamp();

-- name: replication_lag
-- How far the furthest replica is behind, in bytes and seconds; NULL without any.
select
    max(
        pg_catalog.pg_wal_lsn_diff(
            pg_catalog.pg_current_wal_insert_lsn(), replay_lsn
        )
    )::bigint,
    max(extract(epoch from replay_lag))::float8
from pg_catalog.pg_stat_replication;
