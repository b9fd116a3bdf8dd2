"""A deterministic EVM node for demos, tests and benchmarks.

::

    server      HTTP and WebSocket on one port; Devnode, running_devnode, serve
    node        what answers, counts and announces behind them
    faults      all that goes wrong on purpose, by request, in force, or by schedule
    methods     JSON-RPC methods as functions of a chain
    chain       the canonical chain: heads, forks, hash lookup, rendered blocks
    recorded    a chain of given blocks in its place
    profiles    what a block holds: sparse, dense, mixed, exotic, huge
    blocks      header, roots, JSON; built from transactions, receipts, withdrawals
    rlp, trie, hashing, draw, world    the leaves

A chain is a function of (seed, profile, chain id) and nothing else. Every hash and
root a header commits to is valid but ``stateRoot``, ``parentBeaconBlockRoot`` and
``mixHash``, which are pseudo-random; so are the signatures, which means that no
sender can be recovered from them.
"""
