"""Benchmarks of a deployment: what it does a second, and what that costs.

- ``processes``: programs run beside us, their CPU time and memory
- ``node``: the deterministic node as a process of its own, warmed
- ``rawcopy``: the yardstick, PostgreSQL's COPY of rows that are encoded already
- ``pipeline``: plan and work, as a user runs them
- ``backfill``: the cases, interleaved, and what came out
"""
