-- name: lock_migrations
-- One migration of a schema at a time, from any number of hosts.
select pg_catalog.pg_advisory_xact_lock(
    pg_catalog.hashtextextended('indexer.migrate ' || %(schema)s::text, 0)
);

-- name: schema_exists
-- Tell whether the schema is there: creating one needs a right that a user who may
-- only use an existing one does not have.
select pg_catalog.to_regnamespace(pg_catalog.quote_ident(%(schema)s::text)) is not null;

-- name: migrations_table_exists
-- Tell whether anything was ever migrated.
select exists (
    select from pg_catalog.pg_tables
    where schemaname = %(schema)s::text and tablename = 'migrations'
);

-- name: create_schema
-- One schema holds one chain.
create schema if not exists {schema};

-- name: create_migrations_table
-- What was applied, and from which file; programs whose newest migration is older
-- than serves_from cannot use the schema any more. Null is the version itself.
create table if not exists {schema}.migrations (
    version integer primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now(),
    serves_from integer
);

-- name: extend_migrations_table
-- Schemas of before know no serves_from.
alter table {schema}.migrations
add column if not exists serves_from integer;

-- name: applied_migrations
-- The versions that are there, with their names, checksums, and whom they serve.
select version, name, checksum, coalesce(serves_from, version)
from {schema}.migrations
order by version;

-- name: record_migration
-- Commits together with what it did.
insert into {schema}.migrations (version, name, checksum, serves_from)
values (
    %(version)s::integer, %(name)s::text, %(checksum)s::text,
    %(serves_from)s::integer
);
