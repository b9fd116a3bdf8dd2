-- Vacuum gives empty pages at a table's end back under an ACCESS EXCLUSIVE lock, and
-- every claim waits for it. A queue empties all the time and fills the same pages
-- again, so they stay.
-- serves programs from 0001
alter table {schema}.jobs set (vacuum_truncate = off);
