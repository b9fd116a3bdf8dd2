-- name: begin_snapshot
-- The first statement of a transaction whose others see the tables as of one moment.
set transaction isolation level repeatable read;

-- name: read_blocks
-- Blocks of a range in order; numbers and JSON as text, which are read faster, and
-- times in seconds, for a damaged one may be no time that a client knows.
select
    number,
    hash,
    parent_hash,
    extract(epoch from timestamp)::text,
    miner,
    gas_limit::text,
    gas_used,
    base_fee_per_gas::text,
    size,
    difficulty::text,
    total_difficulty::text,
    nonce,
    mix_hash,
    sha3_uncles,
    logs_bloom,
    transactions_root,
    state_root,
    receipts_root,
    withdrawals_root,
    parent_beacon_block_root,
    requests_hash,
    blob_gas_used,
    excess_blob_gas,
    extra_data,
    uncles,
    extra::text
from {schema}.blocks
where number between %(first)s::bigint and %(last)s::bigint
order by number;

-- name: read_transactions
-- Transactions of a range in order.
select
    block_number,
    transaction_index,
    hash,
    from_address,
    to_address,
    type,
    nonce::text,
    value::text,
    gas,
    gas_price::text,
    max_fee_per_gas::text,
    max_priority_fee_per_gas::text,
    max_fee_per_blob_gas::text,
    chain_id::text,
    v::text,
    r::text,
    s::text,
    y_parity,
    input,
    blob_versioned_hashes,
    access_list::text,
    authorization_list::text,
    extra::text
from {schema}.transactions
where block_number between %(first)s::bigint and %(last)s::bigint
order by block_number, transaction_index;

-- name: read_withdrawals
-- Withdrawals of a range in order.
select
    block_number,
    index,
    validator_index,
    address,
    amount::text,
    extra::text
from {schema}.withdrawals
where block_number between %(first)s::bigint and %(last)s::bigint
order by block_number, index;

-- name: read_receipts
-- Receipts of a range in order.
select
    block_number,
    transaction_index,
    transaction_hash,
    from_address,
    to_address,
    contract_address,
    type,
    status,
    root,
    cumulative_gas_used,
    gas_used,
    effective_gas_price::text,
    blob_gas_used,
    blob_gas_price::text,
    logs_bloom,
    extra::text
from {schema}.receipts
where block_number between %(first)s::bigint and %(last)s::bigint
order by block_number, transaction_index;

-- name: read_logs
-- Logs of a range in order.
select
    block_number,
    log_index,
    transaction_index,
    transaction_hash,
    address,
    topic0,
    topic1,
    topic2,
    topic3,
    data,
    extra::text
from {schema}.logs
where block_number between %(first)s::bigint and %(last)s::bigint
order by block_number, log_index;

-- name: table_bounds
-- The lowest and the highest height that any chain table has a row of.
select min(lowest), max(highest)
from (
    select min(number) as lowest, max(number) as highest from {schema}.blocks
    union all
    select min(block_number), max(block_number) from {schema}.transactions
    union all
    select min(block_number), max(block_number) from {schema}.withdrawals
    union all
    select min(block_number), max(block_number) from {schema}.receipts
    union all
    select min(block_number), max(block_number) from {schema}.logs
) as bounds;

-- name: any_children
-- Tell whether a range without blocks has rows of other tables.
select
    exists (
        select from {schema}.transactions
        where block_number between %(first)s::bigint and %(last)s::bigint
    )
    or exists (
        select from {schema}.withdrawals
        where block_number between %(first)s::bigint and %(last)s::bigint
    )
    or exists (
        select from {schema}.receipts
        where block_number between %(first)s::bigint and %(last)s::bigint
    )
    or exists (
        select from {schema}.logs
        where block_number between %(first)s::bigint and %(last)s::bigint
    );

-- name: jobs_over
-- Unfinished indexing jobs that stand for a height of a range. Anybody may enqueue, so
-- a payload that is not of our form is left alone.
select id, kind, status, last_error, first, last
from (
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
        and status in ('pending', 'running', 'failed')
) as named
where first <= %(last)s::bigint and last >= %(first)s::bigint
order by id;

-- name: unfinished_audit
-- The last audit of the same question that was not brought to its end.
select id, seed, looked_at, wanted, started_at
from {schema}.audits
where asked = %(asked)s::jsonb and finished_at is null
order by id desc
limit 1;

-- name: begin_audit
-- Note what an audit is to look at.
insert into {schema}.audits (asked, seed, looked_at, wanted)
values (
    %(asked)s::jsonb, %(seed)s::bigint, %(looked_at)s::int8multirange,
    %(wanted)s::int8multirange
)
returning id, seed, looked_at, wanted, started_at;

-- name: note_piece
-- Keep what was found in a piece. Two audits at once may both have looked at it.
insert into {schema}.audit_pieces (audit_id, first, last, found)
values (
    %(audit_id)s::bigint, %(first)s::bigint, %(last)s::bigint, %(found)s::jsonb
)
on conflict do nothing;

-- name: noted_pieces
-- What was found so far.
select found::text
from {schema}.audit_pieces
where audit_id = %(audit_id)s::bigint
order by first;

-- name: end_audit
-- Keep the report, and the pieces no longer.
with pieces_gone as (
    delete from {schema}.audit_pieces
    where audit_id = %(audit_id)s::bigint
)

update {schema}.audits
set finished_at = clock_timestamp(), report = %(report)s::jsonb
where id = %(audit_id)s::bigint
returning finished_at;

-- name: drop_audits
-- Audits of the same question that nobody will go on with.
with gone as (
    delete from {schema}.audits
    where asked = %(asked)s::jsonb and finished_at is null
    returning id
)

delete from {schema}.audit_pieces
where audit_id in (select gone.id from gone);

-- name: lock_heights
-- Hold blocks that are to be replaced, in order of number, the one lock order.
select number, hash
from {schema}.blocks
where number between %(first)s::bigint and %(last)s::bigint
order by number
for update;

-- name: delete_heights
-- Everything at some heights leaves by one statement.
with logs_gone as (
    delete from {schema}.logs
    where block_number between %(first)s::bigint and %(last)s::bigint
),

receipts_gone as (
    delete from {schema}.receipts
    where block_number between %(first)s::bigint and %(last)s::bigint
),

withdrawals_gone as (
    delete from {schema}.withdrawals
    where block_number between %(first)s::bigint and %(last)s::bigint
),

transactions_gone as (
    delete from {schema}.transactions
    where block_number between %(first)s::bigint and %(last)s::bigint
)

delete from {schema}.blocks
where number between %(first)s::bigint and %(last)s::bigint;
