-- name: stored_tail
-- Stored heights and hashes downwards from a height, to compare with a node's.
select number, hash
from {schema}.blocks
where number <= %(top)s::bigint
order by number desc
limit %(limit)s::integer;

-- name: lock_blocks_above
-- What a reorganisation replaces, held in order of number, the one lock order: a
-- worker that is storing receipts of such a block is waited for.
select number, hash
from {schema}.blocks
where number > %(fork)s::bigint
order by number
for update;

-- name: delete_above
-- Everything above the fork leaves by one statement, orphaned rows without a block
-- row included.
with logs_gone as (
    delete from {schema}.logs
    where block_number > %(fork)s::bigint
),

receipts_gone as (
    delete from {schema}.receipts
    where block_number > %(fork)s::bigint
),

withdrawals_gone as (
    delete from {schema}.withdrawals
    where block_number > %(fork)s::bigint
),

transactions_gone as (
    delete from {schema}.transactions
    where block_number > %(fork)s::bigint
)

delete from {schema}.blocks
where number > %(fork)s::bigint;

-- name: subtract_coverage_above
-- Nothing above the fork is stored or proven any more. Buckets are held in the order
-- in which extend_coverage takes them.
with held as materialized (
    select dataset, bucket
    from {schema}.coverage
    where bucket >= (%(fork)s::bigint + 1) / %(size)s::bigint
    order by dataset, bucket
    for update
)

update {schema}.coverage as c
set
    stored = c.stored - int8multirange(int8range(%(fork)s::bigint + 1, null)),
    proven = c.proven - int8multirange(int8range(%(fork)s::bigint + 1, null)),
    unprovable = c.unprovable - int8multirange(int8range(%(fork)s::bigint + 1, null)),
    wrong = c.wrong - int8multirange(int8range(%(fork)s::bigint + 1, null))
from held
where c.dataset = held.dataset and c.bucket = held.bucket;

-- name: record_reorg
-- What happened, for whoever wonders later.
insert into {schema}.reorgs (fork_number, depth, old_tip_hash, new_tip_hash)
values (
    %(fork)s::bigint, %(depth)s::integer, %(old_tip_hash)s::bytea,
    %(new_tip_hash)s::bytea
);

-- name: note_final
-- Remember how far the stored chain is final; it never goes back.
update {schema}.chain
set final_number = %(number)s::bigint
where coalesce(final_number, -1) < %(number)s::bigint;

-- name: final_number
-- How far the stored chain was seen final.
select final_number
from {schema}.chain;
