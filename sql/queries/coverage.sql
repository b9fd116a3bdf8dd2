-- name: extend_coverage
-- Note a range as stored, and what of it is proven. One row a bucket of heights, in
-- bucket order, so that concurrent writers of one bucket queue instead of deadlocking.
insert into {schema}.coverage as c (dataset, bucket, stored, proven, unprovable)
select
    %(dataset)s::text,
    piece.bucket,
    piece.heights,
    piece.heights * %(proven)s::int8multirange,
    piece.heights * %(unprovable)s::int8multirange
from (
    select
        bucket,
        int8multirange(
            int8range(
                greatest(%(first)s::bigint, bucket * %(size)s::bigint),
                least(%(last)s::bigint + 1, (bucket + 1) * %(size)s::bigint)
            )
        ) as heights
    from generate_series(
        %(first)s::bigint / %(size)s::bigint, %(last)s::bigint / %(size)s::bigint
    ) as bucket
) as piece
order by piece.bucket
on conflict (dataset, bucket) do update
set
    stored = c.stored + excluded.stored,
    proven = c.proven + excluded.proven,
    unprovable = c.unprovable + excluded.unprovable,
    wrong = c.wrong - excluded.proven - excluded.unprovable;

-- name: any_proven
-- Whether anything of a dataset was ever proven.
select exists (
    select from {schema}.coverage
    where dataset = %(dataset)s::text and not isempty(proven)
);

-- name: covered_ranges
-- The stored ranges of a dataset as few inclusive intervals, in order.
select lower(piece), upper(piece) - 1
from unnest(
    (
        select range_agg(stored)
        from {schema}.coverage
        where dataset = %(dataset)s::text
    )
) as piece
order by 1;

-- name: noted_in_bucket
-- What a bucket's row says of some heights, one interval a row.
select what, lower(piece), upper(piece) - 1
from {schema}.coverage as c
cross join lateral (
    values
    ('stored', c.stored),
    ('proven', c.proven),
    ('unprovable', c.unprovable),
    ('wrong', c.wrong)
) as said (what, heights)
cross join lateral unnest(
    said.heights
    * int8multirange(int8range(%(first)s::bigint, %(last)s::bigint, '[]'))
) as piece
where c.dataset = %(dataset)s::text and c.bucket = %(bucket)s::bigint
order by 1, 2;

-- name: correct_coverage
-- Replace what is noted of some heights of a bucket by what was found in the rows.
insert into {schema}.coverage as c (
    dataset, bucket, stored, proven, unprovable, wrong
)
values (
    %(dataset)s::text,
    %(bucket)s::bigint,
    %(stored)s::int8multirange,
    %(proven)s::int8multirange,
    %(unprovable)s::int8multirange,
    %(wrong)s::int8multirange
)
on conflict (dataset, bucket) do update
set
    stored = c.stored
    - int8multirange(int8range(%(first)s::bigint, %(last)s::bigint, '[]'))
    + excluded.stored,
    proven = c.proven
    - int8multirange(int8range(%(first)s::bigint, %(last)s::bigint, '[]'))
    + excluded.proven,
    unprovable = c.unprovable
    - int8multirange(int8range(%(first)s::bigint, %(last)s::bigint, '[]'))
    + excluded.unprovable,
    wrong = c.wrong
    - int8multirange(int8range(%(first)s::bigint, %(last)s::bigint, '[]'))
    + excluded.wrong;

-- name: subtract_coverage
-- Nothing of some heights is stored or proven any more. Buckets are held in the order
-- in which extend_coverage takes them.
with held as materialized (
    select dataset, bucket
    from {schema}.coverage
    where
        bucket between
        %(first)s::bigint / %(size)s::bigint and %(last)s::bigint / %(size)s::bigint
    order by dataset, bucket
    for update
)

update {schema}.coverage as c
set
    stored = c.stored
    - int8multirange(int8range(%(first)s::bigint, %(last)s::bigint, '[]')),
    proven = c.proven
    - int8multirange(int8range(%(first)s::bigint, %(last)s::bigint, '[]')),
    unprovable = c.unprovable
    - int8multirange(int8range(%(first)s::bigint, %(last)s::bigint, '[]')),
    wrong = c.wrong
    - int8multirange(int8range(%(first)s::bigint, %(last)s::bigint, '[]'))
from held
where c.dataset = held.dataset and c.bucket = held.bucket;

-- name: mark_audited
-- The rows of these buckets were looked at, all of them. In key order, like every
-- writer of this table.
with held as materialized (
    select dataset, bucket
    from {schema}.coverage
    where bucket = any(%(buckets)s::bigint[])
    order by dataset, bucket
    for update
)

update {schema}.coverage as c
set audited_at = now()
from held
where c.dataset = held.dataset and c.bucket = held.bucket;
