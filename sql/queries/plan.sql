-- name: queued_ranges
-- The heights that unfinished jobs stand for. Anybody may enqueue, so a payload that
-- is not of our form counts for nothing instead of stopping the plan.
select
    id,
    kind,
    status,
    last_error,
    case
        when jsonb_typeof(payload -> 'from') = 'number'
            then (payload ->> 'from')::numeric
        when jsonb_typeof(payload -> 'height') = 'number'
            then (payload ->> 'height')::numeric
    end as first,
    case
        when jsonb_typeof(payload -> 'to') = 'number'
            then (payload ->> 'to')::numeric
        when jsonb_typeof(payload -> 'height') = 'number'
            then (payload ->> 'height')::numeric
    end as last
from {schema}.jobs
where
    kind in ('index_blocks', 'index_events')
    and status in ('pending', 'running', 'failed');

-- name: stored_size
-- Bytes on disk of all chain tables, indexes included, and the blocks they hold, as
-- an estimate (no table is read).
select
    coalesce(sum(pg_catalog.pg_total_relation_size(child.oid)), 0)::bigint,
    coalesce(
        sum(child.reltuples) filter (where parent.relname = 'blocks'), 0
    )::bigint
from pg_catalog.pg_inherits as i
inner join pg_catalog.pg_class as parent on parent.oid = i.inhparent
inner join pg_catalog.pg_namespace as n on n.oid = parent.relnamespace
inner join pg_catalog.pg_class as child on child.oid = i.inhrelid
where
    n.nspname = %(schema)s::text
    and parent.relname in (
        'blocks', 'transactions', 'withdrawals', 'receipts', 'logs'
    );

-- name: lowest_queued_height
-- The lowest height that is still to be indexed, by the payloads of ranges.
select min((payload ->> 'from')::numeric)
from {schema}.jobs
where
    kind in ('index_blocks', 'index_events')
    and status in ('pending', 'running')
    and jsonb_typeof(payload -> 'from') = 'number';
