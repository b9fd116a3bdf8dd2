-- name: span_of_work
-- How many jobs were finished, and the seconds from the first claim to the last end.
select
    count(*),
    extract(epoch from max(finished_at) - min(claimed_at))::float8
from {schema}.jobs_history
where status = 'done';

-- name: count_rows
-- How many rows the chain tables hold together.
select
    (select count(*) from {schema}.blocks)
    + (select count(*) from {schema}.transactions)
    + (select count(*) from {schema}.withdrawals)
    + (select count(*) from {schema}.receipts)
    + (select count(*) from {schema}.logs);

-- name: drop_bench_schema
-- Remove what a run has made; only ever called with a schema that the benchmark made.
drop schema {schema} cascade;

-- name: flush_to_disk
-- Begin every run with nothing left to write of the one before.
checkpoint;

-- name: may_flush
-- Whether this user may order a checkpoint.
select
    pg_catalog.pg_has_role(
        current_user, 'pg_checkpoint', 'USAGE'
    );

-- name: server_settings
-- What a rate depends on, to be printed beside it.
select name, current_setting(name)
from
    unnest(
        array[
            'server_version',
            'fsync',
            'synchronous_commit',
            'shared_buffers',
            'max_wal_size',
            'wal_compression'
        ]
    ) as name;

-- name: seen_at_tip
-- Which heights from one on have a block row, and whether their logs are all stored.
select
    b.number,
    exists (
        select from {schema}.coverage as c
        where
            c.dataset = 'events'
            and c.bucket = b.number / %(size)s::bigint
            and c.stored @> b.number
    )
from {schema}.blocks as b
where b.number >= %(first)s::bigint
order by b.number;

-- name: left_to_run
-- Whether the backfill is still going on.
select exists (
    select from {schema}.jobs
    where priority > 0 and status in ('pending', 'running')
);

-- name: backends_of_workers
-- The processes of the server that work for `indexer work` in this database.
select pid
from pg_stat_activity
where datname = current_database() and application_name = 'indexer work';
