-- name: claim_role
-- Take a single role if nobody holds it or its holder let it lapse. Every holding has
-- a new token, so a holder that wakes late is refused by fence_role.
insert into {schema}.leases as l (name, holder, token, locked_until, acquired_at)
values (
    %(name)s::text,
    %(holder)s::text,
    gen_random_uuid(),
    clock_timestamp() + %(lease)s::interval,
    clock_timestamp()
)
on conflict (name) do update
set
    holder = excluded.holder,
    token = excluded.token,
    locked_until = excluded.locked_until,
    acquired_at = excluded.acquired_at
where l.locked_until < clock_timestamp()
returning token;

-- name: fence_role
-- First statement of every transaction of the role: hold its row and renew the lease.
-- Only the token decides: a lapsed lease that nobody took may go on.
update {schema}.leases
set locked_until = clock_timestamp() + %(lease)s::interval
where name = %(name)s::text and token = %(token)s::uuid
returning name;

-- name: release_role
-- Let a standby take over at once.
delete from {schema}.leases
where name = %(name)s::text and token = %(token)s::uuid;

-- name: role_holder
-- Who holds a role, and for how long it is still theirs; negative once it lapsed.
select holder, locked_until - clock_timestamp() as left_over
from {schema}.leases
where name = %(name)s::text;
