"""A deterministic EVM node for demos, tests and benchmarks.

::

    server      HTTP and WebSocket on one port; Devnode, running_devnode, serve
    methods     JSON-RPC methods as functions of a chain; faults decide before them
    chain       the canonical chain: heads, forks, hash lookup, rendered blocks
    profiles    what a block holds: sparse, dense, mixed
    blocks      header, roots, JSON; built from transactions, receipts, withdrawals
    rlp, trie, hashing, draw, world    the leaves

A chain is a function of (seed, profile, chain id) and nothing else. Every hash and
root a header commits to is valid but ``stateRoot``, ``parentBeaconBlockRoot`` and
``mixHash``, which are pseudo-random; so are the signatures, which means that no
sender can be recovered from them.
"""
