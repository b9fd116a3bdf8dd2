-- name: listen_jobs
-- Needs a session of its own: not through a pooler in transaction mode.
listen jobs_ready;

-- name: notify_oneself
-- A notification that only its sender takes for its own.
select pg_catalog.pg_notify('jobs_ready', %(payload)s::text);

-- name: listened_channels
-- Sent on the listening session itself: it proves both that and the subscription.
select channel
from pg_catalog.pg_listening_channels() as channel;
