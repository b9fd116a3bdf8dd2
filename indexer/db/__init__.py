"""PostgreSQL without a word of the domain: connections, queries, migrations."""
