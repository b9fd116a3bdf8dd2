"""JSON-RPC without the database: fetch, decode, check."""
