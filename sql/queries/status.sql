-- name: job_durations
-- How long jobs took that finished within the last hour, by kind: how many, the
-- median and the longest, from claim to completion.
select
    kind,
    count(*),
    percentile_cont(0.5) within group (order by finished_at - claimed_at),
    max(finished_at - claimed_at)
from {schema}.jobs_history
where
    finished_at > now() - interval '1 hour'
    and status = 'done'
    and claimed_at is not null
group by kind
order by kind;

-- name: failed_reasons
-- Failed jobs grouped by the beginning of their reason.
select kind, left(coalesce(last_error, 'no reason was recorded'), 200), count(*)
from {schema}.jobs
where status = 'failed'
group by 1, 2
order by 3 desc, 1, 2
limit 20;

-- name: workers
-- Who is alive and how many claims each holds.
select
    w.name,
    w.role,
    w.host,
    w.pid,
    w.version,
    w.concurrency,
    extract(epoch from now() - w.started_at)::double precision,
    extract(epoch from now() - w.last_seen_at)::double precision,
    count(j.id)
from {schema}.workers as w
left join {schema}.jobs as j on j.locked_by = w.name and j.status = 'running'
group by w.name
order by w.name;

-- name: last_audit
-- When the coverage was last compared with the rows, None where it never was.
select min(audited_at), count(*) filter (where audited_at is null)
from {schema}.coverage;

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
