-- name: stored_in_range
-- Tell whether any block of the range is stored.
select exists (
    select from {schema}.blocks
    where number between %(first)s::bigint and %(last)s::bigint
);

-- name: neighbours
-- The stored blocks right below and right above a range, for the links to it.
select number, hash, parent_hash
from {schema}.blocks
where number in (%(below)s::bigint, %(above)s::bigint);

-- name: hashes_in_range
-- The stored hashes, to compare with what a node gives for heights that exist.
select number, hash
from {schema}.blocks
where number between %(first)s::bigint and %(last)s::bigint
order by number;

-- name: lock_hashes_in_range
-- The same, but a reorganisation has to wait until our transaction has ended: used
-- above the finalized height, where blocks may still be replaced. In order of number,
-- the one lock order.
select number, hash
from {schema}.blocks
where number between %(first)s::bigint and %(last)s::bigint
order by number
for key share;

-- name: block_refs
-- What fetching receipts needs to know of each stored block of a range, in order.
select
    b.number,
    b.hash,
    b.parent_hash,
    b.timestamp,
    b.receipts_root,
    b.logs_bloom,
    array(
        select t.hash
        from {schema}.transactions as t
        where t.block_number = b.number
        order by t.transaction_index
    )
from {schema}.blocks as b
where b.number between %(first)s::bigint and %(last)s::bigint
order by b.number;

-- name: highest_block
-- The highest stored block.
select number, hash
from {schema}.blocks
order by number desc
limit 1;

-- name: block_hash
-- The hash stored at a height.
select hash
from {schema}.blocks
where number = %(number)s::bigint;

-- name: stored_ranges
-- The maximal runs of stored heights within a range, one row a run.
select min(number), max(number)
from (
    select number, number - row_number() over (order by number) as run
    from {schema}.blocks
    where number between %(first)s::bigint and %(last)s::bigint
) as numbered
group by run
order by 1;

-- name: blocks_without_events
-- Stored heights of a range whose receipts or logs are not all there. A block whose
-- header has the empty receipts root has none, whatever its transactions list says.
select b.number
from {schema}.blocks as b
where
    b.number between %(first)s::bigint and %(last)s::bigint
    and (
        (
            b.receipts_root is distinct from %(empty_root)s::bytea
            and exists (
                select from {schema}.transactions as t
                where
                    t.block_number = b.number
                    and not exists (
                        select from {schema}.receipts as r
                        where
                            r.block_number = t.block_number
                            and r.transaction_index = t.transaction_index
                    )
            )
        )
        or (
            b.logs_bloom <> %(empty_bloom)s::bytea
            and not exists (
                select from {schema}.logs as l
                where l.block_number = b.number
            )
        )
    )
order by b.number;

-- name: delete_range
-- Take a range of blocks out; the caller deletes what hangs on them first.
delete from {schema}.blocks
where number between %(first)s::bigint and %(last)s::bigint;
