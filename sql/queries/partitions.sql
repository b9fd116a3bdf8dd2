-- name: lock_partitions
-- One maker of partitions of a schema at a time.
select pg_catalog.pg_advisory_xact_lock(
    pg_catalog.hashtextextended('indexer.partitions ' || %(schema)s::text, 0)
);

-- name: attached_partitions
-- The names of the partitions that a table has.
select child.relname
from pg_catalog.pg_inherits as i
inner join pg_catalog.pg_class as parent on parent.oid = i.inhparent
inner join pg_catalog.pg_namespace as n on n.oid = parent.relnamespace
inner join pg_catalog.pg_class as child on child.oid = i.inhrelid
where n.nspname = %(schema)s::text and parent.relname = %(parent)s::text;

-- name: create_partition
-- A table like its parent, with a CHECK that saves ATTACH from scanning it.
create table {schema}.{partition} (
    like {schema}.{parent} including all,
    check ({column} >= {first} and {column} < {end})
);

-- name: attach_partition
-- ATTACH takes SHARE UPDATE EXCLUSIVE on the parent, so readers and writers go on;
-- CREATE TABLE … PARTITION OF would take ACCESS EXCLUSIVE and stop them all.
alter table {schema}.{parent}
attach partition {schema}.{partition} for values from ({first}) to ({end});
