-- name: jobs_in_range
-- Unfinished indexing jobs that stand for a height of a range, held in id order before
-- any block is: whoever writes for one of them is waited for, and nobody can claim
-- one. Anybody may enqueue, so a payload that is not of our form is left alone.
select id, kind, priority, first, last
from (
    select
        id,
        kind,
        priority,
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
    where kind in ('index_blocks', 'index_events')
) as named
where
    first <= %(last)s::bigint
    and last >= %(first)s::bigint
    and first <= last
order by id;

-- name: hold_jobs_to_end
-- The locks themselves, in id order. A job that was finished while we waited is not
-- returned.
select id
from {schema}.jobs
where id = any(%(ids)s::bigint[])
order by id
for update;

-- name: delete_jobs
-- Their running claims find no row at their next fence, and write nothing more.
delete from {schema}.jobs
where id = any(%(ids)s::bigint[]);

-- name: delete_plans
-- Plans that cover a height of a range leave; what they had beside it is put back.
delete from {schema}.plans
where from_block <= %(last)s::bigint and to_block >= %(first)s::bigint
returning from_block, to_block, range_size;

-- name: highest_row
-- The highest height of a range that any chain table has a row of.
select max(highest)
from (
    (
        select number as highest
        from {schema}.blocks
        where number between %(first)s::bigint and %(last)s::bigint
        order by number desc
        limit 1
    )
    union all
    (
        select block_number
        from {schema}.transactions
        where block_number between %(first)s::bigint and %(last)s::bigint
        order by block_number desc
        limit 1
    )
    union all
    (
        select block_number
        from {schema}.withdrawals
        where block_number between %(first)s::bigint and %(last)s::bigint
        order by block_number desc
        limit 1
    )
    union all
    (
        select block_number
        from {schema}.receipts
        where block_number between %(first)s::bigint and %(last)s::bigint
        order by block_number desc
        limit 1
    )
    union all
    (
        select block_number
        from {schema}.logs
        where block_number between %(first)s::bigint and %(last)s::bigint
        order by block_number desc
        limit 1
    )
) as tops;
