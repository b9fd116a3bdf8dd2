"""A deterministic EVM node for demos, tests and benchmarks."""
