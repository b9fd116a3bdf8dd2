-- name: range_is_empty
-- Tell whether no table has a row in the range: only then may COPY go straight in.
select
    not exists (
        select from {schema}.blocks
        where number between %(first)s::bigint and %(last)s::bigint
    )
    and not exists (
        select from {schema}.transactions
        where block_number between %(first)s::bigint and %(last)s::bigint
    )
    and not exists (
        select from {schema}.withdrawals
        where block_number between %(first)s::bigint and %(last)s::bigint
    )
    and not exists (
        select from {schema}.receipts
        where block_number between %(first)s::bigint and %(last)s::bigint
    )
    and not exists (
        select from {schema}.logs
        where block_number between %(first)s::bigint and %(last)s::bigint
    );

-- name: events_are_empty
-- The same for what index_events writes.
select
    not exists (
        select from {schema}.receipts
        where block_number between %(first)s::bigint and %(last)s::bigint
    )
    and not exists (
        select from {schema}.logs
        where block_number between %(first)s::bigint and %(last)s::bigint
    );

-- name: delete_orphans
-- Rows at heights without a block row belong to no block: they would survive an
-- INSERT … ON CONFLICT DO NOTHING and pass for the new block's own.
with absent as materialized (
    select height
    from
        generate_series(%(first)s::bigint, %(last)s::bigint) as height
    where not exists (
        select from {schema}.blocks as b
        where b.number = height
    )
),

transactions_gone as (
    delete from {schema}.transactions
    where
        block_number between %(first)s::bigint and %(last)s::bigint
        and block_number in (select height from absent)
),

withdrawals_gone as (
    delete from {schema}.withdrawals
    where
        block_number between %(first)s::bigint and %(last)s::bigint
        and block_number in (select height from absent)
),

receipts_gone as (
    delete from {schema}.receipts
    where
        block_number between %(first)s::bigint and %(last)s::bigint
        and block_number in (select height from absent)
)

delete from {schema}.logs
where
    block_number between %(first)s::bigint and %(last)s::bigint
    and block_number in (select height from absent);

-- name: contradicted_events
-- The lowest block whose stored receipts or logs are not those in the staging tables.
-- Only what the chain commits to is compared; a node's own further fields may differ
-- from one version of it to the next.
select block_number
from (
    select coalesce(r.block_number, s.block_number) as block_number
    from (
        select * from {schema}.receipts
        where block_number between %(first)s::bigint and %(last)s::bigint
    ) as r
    full join pg_temp.stage_receipts as s
        on
            s.block_number = r.block_number
            and s.transaction_index = r.transaction_index
    where
        (r.transaction_hash, r.status, r.root, r.cumulative_gas_used)
        is distinct from
        (s.transaction_hash, s.status, s.root, s.cumulative_gas_used)
    union all
    select coalesce(l.block_number, s.block_number)
    from (
        select * from {schema}.logs
        where block_number between %(first)s::bigint and %(last)s::bigint
    ) as l
    full join pg_temp.stage_logs as s
        on s.block_number = l.block_number and s.log_index = l.log_index
    where
        (l.transaction_hash, l.address, l.data, l.topic0, l.topic1, l.topic2, l.topic3)
        is distinct from
        (s.transaction_hash, s.address, s.data, s.topic0, s.topic1, s.topic2, s.topic3)
) as contradictions
order by 1
limit 1;

-- name: heights_with_events
-- The heights of a range that have any receipt or log.
select block_number
from {schema}.receipts
where block_number between %(first)s::bigint and %(last)s::bigint
union
select block_number
from {schema}.logs
where block_number between %(first)s::bigint and %(last)s::bigint;

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
