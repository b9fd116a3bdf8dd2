-- The whole schema of one chain. {schema} is bound when a migration is applied.

create table {schema}.chain (
    singleton boolean primary key default true check (singleton),
    chain_id numeric(78, 0) not null,
    genesis_hash bytea not null,
    profile text not null default 'unknown',
    -- Up to here the follower has seen the stored chain final; it replaces nothing.
    final_number bigint,
    -- The newest block the follower heard of, and when: for the lag, seen by status.
    head_number bigint,
    head_seen_at timestamptz,
    -- Why the follower stopped last: a node contradicted what was final.
    contradiction text,
    contradicted_at timestamptz,
    created_at timestamptz not null default now()
);

-- Chain data. Partitioned by height, 1,000,000 heights a partition, made ahead of
-- time by plan and follow. Fixed-width columns first, for alignment; the column
-- order is the COPY order of indexer/rows.py.

create table {schema}.blocks (
    number bigint not null,
    hash bytea not null,
    parent_hash bytea not null,
    timestamp timestamptz,
    miner bytea,
    gas_limit numeric(20, 0),
    gas_used bigint,
    base_fee_per_gas numeric(78, 0),
    size bigint,
    difficulty numeric(78, 0),
    total_difficulty numeric(78, 0),
    nonce bytea,
    mix_hash bytea,
    sha3_uncles bytea,
    logs_bloom bytea,
    transactions_root bytea,
    state_root bytea,
    receipts_root bytea,
    withdrawals_root bytea,
    parent_beacon_block_root bytea,
    requests_hash bytea,
    blob_gas_used bigint,
    excess_blob_gas bigint,
    extra_data bytea,
    uncles bytea[],
    extra jsonb,
    primary key (number)
) partition by range (number);

create index blocks_hash_idx on {schema}.blocks (hash);

create table {schema}.transactions (
    block_number bigint not null,
    transaction_index integer not null,
    hash bytea not null,
    from_address bytea,
    to_address bytea,
    type integer,
    nonce numeric(20, 0),
    value numeric(78, 0),
    gas bigint,
    gas_price numeric(78, 0),
    max_fee_per_gas numeric(78, 0),
    max_priority_fee_per_gas numeric(78, 0),
    max_fee_per_blob_gas numeric(78, 0),
    chain_id numeric(78, 0),
    v numeric(78, 0),
    r numeric(78, 0),
    s numeric(78, 0),
    y_parity integer,
    input bytea,
    blob_versioned_hashes bytea[],
    access_list jsonb,
    authorization_list jsonb,
    extra jsonb,
    primary key (block_number, transaction_index)
) partition by range (block_number);

-- Not unique: real chains hold the same transaction hash in two blocks.
create index transactions_hash_idx on {schema}.transactions (hash);

create table {schema}.withdrawals (
    block_number bigint not null,
    index bigint not null,
    validator_index bigint,
    address bytea,
    amount numeric(20, 0),
    extra jsonb,
    primary key (block_number, index)
) partition by range (block_number);

create table {schema}.receipts (
    block_number bigint not null,
    transaction_index integer not null,
    transaction_hash bytea not null,
    from_address bytea,
    to_address bytea,
    contract_address bytea,
    type integer,
    status smallint,
    root bytea,
    cumulative_gas_used bigint,
    gas_used bigint,
    effective_gas_price numeric(78, 0),
    blob_gas_used bigint,
    blob_gas_price numeric(78, 0),
    logs_bloom bytea,
    extra jsonb,
    primary key (block_number, transaction_index)
) partition by range (block_number);

create table {schema}.logs (
    block_number bigint not null,
    log_index integer not null,
    transaction_index integer,
    transaction_hash bytea,
    address bytea not null,
    topic0 bytea,
    topic1 bytea,
    topic2 bytea,
    topic3 bytea,
    data bytea not null,
    extra jsonb,
    primary key (block_number, log_index)
) partition by range (block_number);

create index logs_address_topic0_idx
on {schema}.logs (address, topic0, block_number);

-- What is stored and how far it is proven. One row a dataset and 10,000 heights, so
-- that two jobs seldom meet on a row; multiranges make extending it idempotent.
create table {schema}.coverage (
    dataset text not null check (dataset in ('blocks', 'events')),
    bucket bigint not null,
    stored int8multirange not null default '{{}}',
    proven int8multirange not null default '{{}}',
    unprovable int8multirange not null default '{{}}',
    audited_at timestamptz,
    primary key (dataset, bucket)
) with (fillfactor = 50);

create table {schema}.reorgs (
    id bigserial primary key,
    detected_at timestamptz not null default now(),
    fork_number bigint not null,
    depth integer not null,
    old_tip_hash bytea not null,
    new_tip_hash bytea not null
);

create table {schema}.plans (
    id bigserial primary key,
    from_block bigint not null,
    to_block bigint not null,
    range_size integer not null,
    jobs_queued integer not null,
    created_at timestamptz not null default now()
);

-- Single roles (the follower), fenced by a token like a job.
create table {schema}.leases (
    name text primary key,
    holder text not null,
    token uuid not null,
    locked_until timestamptz not null,
    acquired_at timestamptz not null default now()
) with (fillfactor = 50);

create table {schema}.workers (
    name text primary key,
    role text not null,
    host text not null,
    pid integer not null,
    version text not null,
    concurrency integer not null,
    kinds text[] not null,
    started_at timestamptz not null default now(),
    last_seen_at timestamptz not null default now()
) with (fillfactor = 50);

create table {schema}.endpoints (
    name text primary key,
    state text not null default 'unknown',
    limits jsonb not null default '{{}}',
    last_error text,
    updated_at timestamptz not null default now()
) with (fillfactor = 50);

-- The queue. fillfactor leaves room for a heartbeat's new row version on the same
-- page (HOT); no index on locked_until, which would make every heartbeat non-HOT.
create table {schema}.jobs (
    id bigserial primary key,
    kind text not null,
    payload jsonb not null,
    status text not null default 'pending'
    check (status in ('pending', 'running', 'done', 'failed')),
    run_at timestamptz not null default now(),
    attempts integer not null default 0,
    locked_by text,
    claim_token uuid,
    locked_until timestamptz,
    created_at timestamptz not null default now(),
    priority smallint not null default 10,
    errors integer not null default 0,
    lost_leases integer not null default 0,
    snoozes integer not null default 0,
    claimed_at timestamptz,
    deadline_at timestamptz,
    cancel_requested_at timestamptz,
    progress jsonb,
    last_error text,
    last_error_at timestamptz,
    -- Times no client can read (infinity, BC) would make every claim of theirs fail.
    check (run_at between '0001-01-02 00:00:00+00' and '9999-12-30 00:00:00+00'),
    check (created_at between '0001-01-02 00:00:00+00' and '9999-12-30 00:00:00+00')
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000
);

create index jobs_claimable_idx
on {schema}.jobs (priority, run_at, id) where status = 'pending';

create index jobs_running_idx on {schema}.jobs (id) where status = 'running';

-- For whoever looks on: what failed, and what went wrong lately, without reading a
-- million pending jobs.
create index jobs_failed_idx on {schema}.jobs (id) where status = 'failed';

create index jobs_troubled_idx
on {schema}.jobs (last_error_at) where last_error_at is not null;

create table {schema}.jobs_history (
    id bigint not null,
    kind text not null,
    payload jsonb not null,
    status text not null check (status in ('done', 'cancelled', 'failed')),
    run_at timestamptz not null,
    attempts integer not null,
    locked_by text,
    claim_token uuid,
    created_at timestamptz not null,
    priority smallint not null,
    errors integer not null,
    lost_leases integer not null,
    snoozes integer not null,
    claimed_at timestamptz,
    finished_at timestamptz not null default now(),
    progress jsonb,
    result jsonb,
    last_error text
) partition by range (finished_at);

create index jobs_history_id_idx on {schema}.jobs_history (id);

create view {schema}.jobs_all as
select
    id, kind, payload, status, run_at, attempts, locked_by, claim_token,
    locked_until, created_at, priority, errors, lost_leases, snoozes, claimed_at,
    null::timestamptz as finished_at, progress, null::jsonb as result, last_error
from {schema}.jobs
union all
select
    id, kind, payload, status, run_at, attempts, locked_by, claim_token,
    null::timestamptz, created_at, priority, errors, lost_leases, snoozes,
    claimed_at, finished_at, progress, result, last_error
from {schema}.jobs_history;

-- A plain INSERT by another program must wake workers too, so this is a trigger and
-- not a line of Python. One a statement: a notifying commit takes a global lock.
create function {schema}.notify_jobs_ready() returns trigger
language plpgsql as $$
begin
    perform pg_catalog.pg_notify('jobs_ready', tg_table_schema);
    return null;
end
$$;

create trigger jobs_ready after insert on {schema}.jobs
for each statement execute function {schema}.notify_jobs_ready();
