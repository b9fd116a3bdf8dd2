-- name: stale_parents
-- Partitioned tables whose statistics are older than wanted: autovacuum looks at their
-- partitions only, and never at them.
select c.relname
from pg_catalog.pg_class as c
inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
left join pg_catalog.pg_stat_all_tables as s on s.relid = c.oid
where n.nspname = %(schema)s::text
    and c.relkind = 'p'
    and (s.last_analyze is null or s.last_analyze < now() - %(age)s::interval)
order by c.relname;

-- name: analyze_table
-- A partitioned table with its partitions; reads a sample of each.
analyze {schema}.{table};
