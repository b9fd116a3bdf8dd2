"""The chain tables: COPY in, coverage, partitions."""
