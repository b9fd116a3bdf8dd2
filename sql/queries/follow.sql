-- name: lock_jobs_above
-- Unfinished indexing jobs that stand for a height above the fork, held in id order
-- before any block is: whoever writes for one of them is waited for, and nobody can
-- claim one. Anybody may enqueue, so a payload that is not of our form is left alone.
select id
from (
    select
        id,
        case
            when jsonb_typeof(payload -> 'to') = 'number'
                then (payload ->> 'to')::numeric
            when jsonb_typeof(payload -> 'height') = 'number'
                then (payload ->> 'height')::numeric
        end as last
    from {schema}.jobs
    where kind in ('index_blocks', 'index_events')
) as named
where last > %(fork)s::bigint and id <> all(%(known)s::bigint[])
order by id;

-- name: hold_jobs
-- The locks themselves. A job that was finished while we waited is not returned.
select id
from {schema}.jobs
where id = any(%(ids)s::bigint[])
order by id
for update;

-- name: delete_pinned_jobs
-- A job that names a replaced block by its hash goes with it, whoever runs it: the
-- running claim's next fence finds no row.
delete from {schema}.jobs
where
    id = any(%(ids)s::bigint[])
    and payload ? 'height'
    and payload ? 'hash';

-- name: rewind_jobs
-- A job for a range goes on from the fork: its claim loses the token and its progress
-- is cut, at no cost to its counters.
with rewound as (
    update {schema}.jobs as j
    set
        status = case when j.status = 'running' then 'pending' else j.status end,
        attempts = case
            when j.status = 'running' then greatest(j.attempts - 1, 0)
            else j.attempts
        end,
        locked_by = null,
        claim_token = null,
        locked_until = null,
        deadline_at = null,
        progress = case
            when (j.progress ->> 'next')::numeric > %(fork)s::bigint + 1
                then jsonb_set(
                    j.progress, '{{next}}', to_jsonb(%(fork)s::bigint + 1)
                )
            else j.progress
        end
    where
        j.id = any(%(ids)s::bigint[])
        and (
            j.status = 'running'
            or (j.progress ->> 'next')::numeric > %(fork)s::bigint + 1
        )
    returning j.id
)

select
    count(*),
    case
        when count(*) > 0
            then pg_catalog.pg_notify('jobs_ready', %(schema)s::text)::text
    end
from rewound;
