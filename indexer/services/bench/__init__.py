"""Benchmarks of a deployment: what it does a second, and what that costs.

- ``processes``: programs run beside us, their CPU time and memory
- ``node``: the deterministic node as a process of its own, warmed
- ``schema``: a schema of its own for each run
- ``rawcopy``: the yardstick, PostgreSQL's COPY of rows that are encoded already
- ``pipeline``: plan and work, as a user runs them
- ``backfill``: the cases, interleaved, and what came out
- ``tip``: how long a new block takes to be seen, and its logs
- ``queue``: the queue without any chain, its cases and what came out
- ``drain``: a worker process of the queue cases
- ``beside``: what others feel meanwhile
"""
