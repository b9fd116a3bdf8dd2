-- name: chain_identity
-- Which chain this schema holds.
select chain_id, genesis_hash, profile
from {schema}.chain;

-- name: claim_chain
-- Say which chain this schema holds, once; two processes at once agree on one.
insert into {schema}.chain (chain_id, genesis_hash)
values (%(chain_id)s::numeric, %(genesis_hash)s::bytea)
on conflict do nothing;

-- name: keep_profile
-- Note what can be proven of the chain; two processes at once agree on one.
update {schema}.chain
set profile = %(profile)s::text
where profile = %(unknown)s::text;

-- name: record_plan
-- Remember what was planned, for progress and for the hole below the tip.
insert into {schema}.plans (from_block, to_block, range_size, jobs_queued)
values (
    %(first)s::bigint, %(last)s::bigint, %(range_size)s::integer,
    %(jobs_queued)s::integer
);

-- name: planned_ranges
-- What was ever planned.
select from_block, to_block
from {schema}.plans;

-- name: lock_planning
-- One planner of a schema at a time, the follower's own planning included.
select pg_catalog.pg_advisory_xact_lock(
    pg_catalog.hashtextextended('indexer.plan ' || %(schema)s::text, 0)
);

-- name: upsert_endpoint
-- What was learned about an endpoint; the name carries no secret. What this process
-- knows nothing of stays as another found it.
insert into {schema}.endpoints as e (name, state, limits, last_error, updated_at)
values (
    %(name)s::text, %(state)s::text, %(limits)s::jsonb, %(last_error)s::text, now()
)
on conflict (name) do update
set
    state = excluded.state,
    limits = e.limits || excluded.limits,
    last_error = coalesce(excluded.last_error, e.last_error),
    updated_at = now();

-- name: endpoints
-- Every endpoint that was used, and what is known of it.
select name, state, limits, last_error, updated_at
from {schema}.endpoints
order by name;
