-- name: queue_table
-- Dead rows of the queue's table, how often it was vacuumed, and since when the server
-- counts. The numbers are the server's estimates.
select
    s.n_live_tup,
    s.n_dead_tup,
    s.n_tup_upd,
    s.n_tup_hot_upd,
    s.autovacuum_count,
    s.vacuum_count,
    extract(epoch from now() - s.last_autovacuum)::double precision,
    extract(epoch from now() - greatest(s.last_autovacuum, s.last_vacuum))
    ::double precision,
    pg_catalog.pg_total_relation_size(s.relid),
    extract(epoch from now() - coalesce(
        d.stats_reset, pg_catalog.pg_postmaster_start_time()
    ))::double precision,
    (
        select option_value::bigint
        from pg_catalog.pg_options_to_table(c.reloptions)
        where option_name = 'autovacuum_vacuum_threshold'
    )
from pg_catalog.pg_stat_all_tables as s
inner join pg_catalog.pg_class as c on c.oid = s.relid
cross join pg_catalog.pg_stat_database as d
where s.schemaname = %(schema)s::text
    and s.relname = 'jobs'
    and d.datname = pg_catalog.current_database();

-- name: connections
-- Client connections of the whole server, this database's and this program's, what is
-- allowed to ordinary users, and how many sit idle in a transaction.
select
    count(*),
    count(*) filter (where datname = pg_catalog.current_database()),
    count(*) filter (where application_name like 'indexer %%'),
    count(*) filter (where state like 'idle in transaction%%'),
    pg_catalog.current_setting('max_connections')::integer
    - pg_catalog.current_setting('superuser_reserved_connections')::integer
    - coalesce(pg_catalog.current_setting('reserved_connections', true), '0')::integer
from pg_catalog.pg_stat_activity
-- The type of other users' sessions is hidden from those who may not see it.
where backend_type = 'client backend' or (backend_type is null and datid is not null);

-- name: server
-- Version, age, WAL written so far, how full the notification queue is, whether
-- sessions idle in a transaction are ended, and whether we may see everything.
select
    pg_catalog.current_setting('server_version'),
    extract(epoch from now() - pg_catalog.pg_postmaster_start_time())
    ::double precision,
    pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), '0/0')::double precision,
    w.wal_records,
    pg_catalog.pg_notification_queue_usage(),
    extract(epoch from
        pg_catalog.current_setting('idle_in_transaction_session_timeout')::interval
    )::double precision,
    pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'usage'),
    current_user
from pg_catalog.pg_stat_wal as w;

-- name: replicas
-- Standbys: how far behind in bytes and, where it is known, in seconds.
select
    application_name,
    coalesce(state, 'hidden'),
    pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), replay_lsn)
    ::double precision,
    extract(epoch from replay_lag)::double precision
from pg_catalog.pg_stat_replication
order by application_name, pid;

-- name: slots
-- Replication slots: whether someone reads them, and how much WAL each holds back.
select
    slot_name,
    slot_type,
    active,
    pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), restart_lsn)
    ::double precision,
    wal_status
from pg_catalog.pg_replication_slots
order by slot_name;

-- name: long_sessions
-- Sessions whose transaction is older than some time, the oldest first; idle ones too.
select
    pid,
    usename,
    datname,
    application_name,
    state,
    extract(epoch from now() - xact_start)::double precision,
    extract(epoch from now() - state_change)::double precision,
    pg_catalog.left(query, 400)
from pg_catalog.pg_stat_activity
where xact_start < now() - %(age)s::interval
    and pid <> pg_catalog.pg_backend_pid()
    and coalesce(backend_type, '') <> 'autovacuum worker'
order by xact_start
limit 20;

-- name: vacuum_pins
-- Who keeps vacuum from removing dead rows of this database, the oldest snapshot
-- first: sessions, prepared transactions, replication slots, standbys' feedback. What
-- a session is at is hidden from those who may not see it, its snapshot is not.
with pin as (
    select
        case
            when s.backend_type = 'walsender' then 'standby'
            else 'session'
        end as holder,
        s.pid::text as name,
        s.usename::text as owner,
        s.application_name as application,
        s.state,
        extract(epoch from now() - s.xact_start)::double precision as seconds,
        greatest(
            pg_catalog.age(s.backend_xmin), pg_catalog.age(s.backend_xid)
        ) as transactions,
        pg_catalog.left(s.query, 400) as query
    from pg_catalog.pg_stat_activity as s
    where (s.backend_xmin is not null or s.backend_xid is not null)
        and s.pid <> pg_catalog.pg_backend_pid()
        and coalesce(s.backend_type, '') <> 'autovacuum worker'
        and (
            s.datname = pg_catalog.current_database()
            or s.backend_type = 'walsender'
        )
    union all
    select
        'prepared transaction', p.gid, p.owner::text, null, null,
        extract(epoch from now() - p.prepared)::double precision,
        pg_catalog.age(p.transaction), null
    from pg_catalog.pg_prepared_xacts as p
    where p.database = pg_catalog.current_database()
    union all
    select
        'replication slot', r.slot_name::text, null, null,
        case when r.active then 'active' else 'nobody reads it' end,
        null, pg_catalog.age(r.xmin), null
    from pg_catalog.pg_replication_slots as r
    where r.xmin is not null
)
select holder, name, owner, application, state, seconds, transactions, query
from pin
order by transactions desc, seconds desc nulls last
limit 10;
