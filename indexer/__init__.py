"""Index an EVM chain into PostgreSQL, with the queue in the same database.

The layers, each knowing only those below it:

- ``cli``: parse, make a :class:`indexer.config.Config`, one service call, exit code
- ``services``: own transactions, loops and signals; the only place that sees jobs,
  chain and store together
- ``jobs`` (the queue) | ``chain`` (JSON-RPC) | ``store`` (the chain tables) |
  ``devnode`` (a deterministic node); none knows another
- ``db``: connections, named queries, migrations, the embedded server
- ``config``, ``metrics``, ``log``, ``rows``, ``ranges``, ``backoff``, ``tasks``
- ``errors``
"""

__version__ = "0.1.0"
