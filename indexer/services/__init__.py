"""Transactions, loops and signals; where jobs, chain and store meet."""
