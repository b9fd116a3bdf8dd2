-- What `indexer verify` has looked at, so that an audit that was interrupted goes on,
-- and what it reported in the end. looked_at are the heights whose rows it reads,
-- wanted those that have to be there.
create table {schema}.audits (
    id bigserial primary key,
    asked jsonb not null,
    seed bigint not null,
    looked_at int8multirange not null,
    wanted int8multirange not null,
    started_at timestamptz not null default now(),
    finished_at timestamptz,
    report jsonb
);

create table {schema}.audit_pieces (
    audit_id bigint not null,
    first bigint not null,
    last bigint not null,
    found jsonb not null,
    primary key (audit_id, first, last)
);

-- Stored heights that the last audit found wrong: what was proven once, or wrong, and
-- has lost the fields to prove it by, is not merely unprovable.
alter table {schema}.coverage
add column wrong int8multirange not null default '{{}}';
