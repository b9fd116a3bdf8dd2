-- name: queue_pages
-- How large the queue's table is, in pages of the server; no row is read.
select
    pg_catalog.pg_relation_size(c.oid)
    / pg_catalog.current_setting('block_size')::bigint
from pg_catalog.pg_class as c
inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname = %(schema)s::text and c.relname = 'jobs';

-- name: sampled_pending
-- Pending jobs by kind in some of the table's pages, for tables too large to count.
select kind, count(*)
from {schema}.jobs tablesample system (%(percent)s::real)
where status = 'pending'
group by kind;

-- name: counted_pending
-- Pending jobs by kind, counted.
select kind, count(*)
from {schema}.jobs
where status = 'pending'
group by kind;

-- name: counted_running
-- Running jobs by kind; their index is as small as the workers are few.
select kind, count(*)
from {schema}.jobs
where status = 'running'
group by kind;

-- name: counted_failed
-- Failed jobs by kind. Ordered and limited, so that whatever the statistics say, the
-- index over failed jobs is read and no more of it than this.
select kind, count(*)
from (
    select kind
    from {schema}.jobs
    where status = 'failed'
    order by id
    limit %(limit)s::integer
) as failed
group by kind;

-- name: failed_reasons
-- Failed jobs grouped by their reason without its numbers and hashes; the reason and
-- the id of the first one stand for all.
select kind, min(reason), count(*), min(id), pattern
from (
    select
        id,
        kind,
        left(coalesce(last_error, 'no reason was recorded'), 300) as reason,
        pg_catalog.regexp_replace(
            left(coalesce(last_error, ''), 300), '0x[0-9a-f]+|[0-9]+', '#', 'g'
        ) as pattern
    from {schema}.jobs
    where status = 'failed'
    order by id
    limit %(limit)s::integer
) as failed
group by kind, pattern
order by 3 desc, 1, 4
limit 20;

-- name: history_days_lately
-- The days of history that the last hour touches, and from which page on to read each:
-- its end, as it is written in order. No index on the time of finishing is needed.
select
    pg_catalog.to_date(pg_catalog.right(c.relname, 8), 'YYYYMMDD')::timestamp
    at time zone 'UTC',
    greatest(
        0,
        pg_catalog.pg_relation_size(c.oid)
        / pg_catalog.current_setting('block_size')::bigint - %(pages)s::bigint
    )
from pg_catalog.pg_class as c
inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
inner join pg_catalog.pg_inherits as i on i.inhrelid = c.oid
where n.nspname = %(schema)s::text
    and c.relname ~ '^jobs_history_[0-9]{{8}}$'
    and pg_catalog.to_date(pg_catalog.right(c.relname, 8), 'YYYYMMDD')
    between ((now() - interval '1 hour') at time zone 'UTC')::date
    and (now() at time zone 'UTC')::date
order by 1;

-- name: finished_lately
-- Jobs of one day of history that finished within the last hour, by kind, read from
-- one page on: how many, how many of them done, their median and longest duration,
-- errors, lost leases, since when (where the page was not the first one), and the
-- heights done within the window, a job that began before it counted in part.
select
    kind,
    count(*) filter (where status = 'done'),
    count(*),
    extract(epoch from percentile_cont(0.5) within group (
        order by finished_at - claimed_at
    ) filter (where status = 'done'))::double precision,
    extract(epoch from max(finished_at - claimed_at))::double precision,
    sum(errors)::bigint,
    count(*) filter (where lost_leases > 0),
    extract(epoch from now() - min(finished_at))::double precision,
    coalesce(sum(
        heights
        * greatest(0, extract(epoch from
            finished_at - greatest(claimed_at, now() - %(window)s::interval)
        ))
        / greatest(extract(epoch from finished_at - claimed_at), 0.000001)
    ) filter (where finished_at > now() - %(window)s::interval), 0)::double precision,
    coalesce(max(extract(epoch from
        now() - greatest(claimed_at, now() - %(window)s::interval)
    )) filter (where finished_at > now() - %(window)s::interval), 0)::double precision
from (
    select
        kind, status, finished_at, claimed_at, errors, lost_leases,
        case
            when status <> 'done' then 0
            when pg_catalog.jsonb_typeof(payload -> 'from') = 'number'
                and pg_catalog.jsonb_typeof(payload -> 'to') = 'number'
                -- Anybody's payload is read here, whatever is in it.
                then greatest(0, least(
                    (payload ->> 'to')::numeric - (payload ->> 'from')::numeric + 1,
                    1e15
                ))
            when pg_catalog.jsonb_typeof(payload -> 'height') = 'number' then 1
            else 0
        end as heights
    from {schema}.jobs_history
    where finished_at >= greatest(
            %(day)s::timestamptz, now() - interval '1 hour'
        )
        and finished_at < %(day)s::timestamptz + interval '1 day'
        and ctid >= %(start)s::tid
) as lately
group by kind
order by kind;

-- name: running_work
-- What the running jobs have done so far within the window, by kind: heights, and over
-- how many seconds. Only first claims, for a later one began with others' progress.
select
    kind,
    sum(
        greatest(0, least(
            (progress ->> 'next')::numeric - (payload ->> 'from')::numeric, 1e15
        ))
        * least(1, extract(epoch from %(window)s::interval)
            / greatest(extract(epoch from now() - claimed_at), 0.000001))
    )::double precision,
    max(least(
        extract(epoch from %(window)s::interval),
        extract(epoch from now() - claimed_at)
    ))::double precision
from {schema}.jobs
where status = 'running'
    and attempts = 1
    and snoozes = 0
    and pg_catalog.jsonb_typeof(payload -> 'from') = 'number'
    and pg_catalog.jsonb_typeof(progress -> 'next') = 'number'
group by kind;

-- name: troubled_lately
-- Unfinished jobs that met an error, lost a lease or failed within the last hour.
select
    kind,
    count(*) filter (where errors > 0),
    count(*) filter (where lost_leases > 0),
    count(*) filter (where status = 'failed')
from {schema}.jobs
where last_error_at > now() - interval '1 hour'
group by kind;

-- name: workers
-- Who is alive.
select
    w.name,
    w.role,
    w.host,
    w.pid,
    w.version,
    w.concurrency,
    extract(epoch from now() - w.started_at)::double precision,
    extract(epoch from now() - w.last_seen_at)::double precision
from {schema}.workers as w
order by w.name;

-- name: claims
-- What is being worked on, by whom, how far, and how long the lease still runs.
select
    id,
    kind,
    payload::text,
    locked_by,
    attempts,
    extract(epoch from now() - claimed_at)::double precision,
    extract(epoch from locked_until - now())::double precision,
    case
        when pg_catalog.jsonb_typeof(progress -> 'next') = 'number'
            then greatest(0, least((progress ->> 'next')::numeric, 1e18))::bigint
    end
from {schema}.jobs
where status = 'running'
order by id
limit %(limit)s::integer;

-- name: last_audit
-- When the coverage was last compared with the rows, None where it never was.
select min(audited_at), count(*) filter (where audited_at is null)
from {schema}.coverage;

-- name: proven_ranges
-- The ranges of a dataset that are proven, as few inclusive intervals, in order.
select lower(piece), upper(piece) - 1
from unnest(
    (
        select range_agg(proven)
        from {schema}.coverage
        where dataset = %(dataset)s::text
    )
) as piece
order by 1;

-- name: follower
-- Who follows the tip.
select
    holder,
    extract(epoch from locked_until - clock_timestamp())::double precision
from {schema}.leases
where name = 'follower';

-- name: newest_block
-- The highest stored block and how old it is by the database's clock.
select
    number,
    hash,
    timestamp,
    extract(epoch from now() - timestamp)::double precision
from {schema}.blocks
order by number desc
limit 1;

-- name: head
-- The newest block that the follower heard of, if that was lately.
select head_number
from {schema}.chain
where head_seen_at > now() - %(fresh)s::interval;

-- name: note_head
-- Remember the newest block that the follower heard of.
update {schema}.chain
set head_number = %(number)s::bigint, head_seen_at = clock_timestamp();

-- name: note_contradiction
-- Remember that a node contradicted what was final, and how.
update {schema}.chain
set contradiction = %(text)s::text, contradicted_at = clock_timestamp();

-- name: contradiction
-- What the follower stopped for, if that was within the last hour: one that is started
-- again meets it again.
select contradiction
from {schema}.chain
where contradicted_at > now() - interval '1 hour';

-- name: reorgs_lately
-- Reorganisations of the last day, the deepest of them, and the last one.
select
    count(*),
    max(depth),
    extract(epoch from now() - max(detected_at))::double precision
from {schema}.reorgs
where detected_at > now() - interval '1 day';

-- name: unfinished_ranges
-- The heights that unfinished jobs of a state stand for, the first ones in order of id,
-- for the map; a payload that is not of our form, or no height, stands for none.
select
    kind,
    case when low between 0 and 4611686018427387904 then low::bigint end,
    case when high between 0 and 4611686018427387904 then high::bigint end,
    id,
    following::bigint
from (
    select
        id,
        kind,
        case
            when payload ? 'from'
                then case
                    when pg_catalog.jsonb_typeof(payload -> 'from') = 'number'
                        then (payload ->> 'from')::numeric
                end
            when pg_catalog.jsonb_typeof(payload -> 'height') = 'number'
                then (payload ->> 'height')::numeric
        end as low,
        case
            when payload ? 'from'
                then case
                    when pg_catalog.jsonb_typeof(payload -> 'to') = 'number'
                        then (payload ->> 'to')::numeric
                end
            when pg_catalog.jsonb_typeof(payload -> 'height') = 'number'
                then (payload ->> 'height')::numeric
        end as high,
        case
            when pg_catalog.jsonb_typeof(progress -> 'next') = 'number'
                then greatest(0, least((progress ->> 'next')::numeric, 1e18))
        end as following
    from {schema}.jobs
    where status = %(status)s::text
        and kind in ('index_blocks', 'index_events')
    order by id
    limit %(limit)s::integer
) as job;
