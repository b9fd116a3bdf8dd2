-- name: see_worker
-- Register a worker or renew its entry: one that slept and was retired comes back.
insert into {schema}.workers (name, role, host, pid, version, concurrency, kinds)
values (
    %(name)s::text, %(role)s::text, %(host)s::text, %(pid)s::integer,
    %(version)s::text, %(concurrency)s::integer, %(kinds)s::text[]
)
on conflict (name) do update set last_seen_at = clock_timestamp();

-- name: forget_worker
-- A worker that leaves in order.
delete from {schema}.workers
where name = %(name)s::text;

-- name: retire_workers
-- Entries of workers that were not seen for long; their jobs are the reaper's.
with gone as materialized (
    select name
    from {schema}.workers
    where last_seen_at < now() - %(unseen)s::interval
    order by name
    for update skip locked
)
delete from {schema}.workers as w
where w.name = any(array(select gone.name from gone))
returning w.name;
