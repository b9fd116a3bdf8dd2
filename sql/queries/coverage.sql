-- name: extend_coverage
-- Note a range as stored. One row a bucket of heights, in bucket order, so that
-- concurrent writers of one bucket queue instead of deadlocking.
insert into {schema}.coverage as c (dataset, bucket, stored)
select
    %(dataset)s::text,
    bucket,
    int8multirange(
        int8range(
            greatest(%(first)s::bigint, bucket * %(size)s::bigint),
            least(%(last)s::bigint + 1, (bucket + 1) * %(size)s::bigint)
        )
    )
from generate_series(
    %(first)s::bigint / %(size)s::bigint, %(last)s::bigint / %(size)s::bigint
) as bucket
order by bucket
on conflict (dataset, bucket) do update
set stored = c.stored + excluded.stored;

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
