"""``python -m indexer``."""

from __future__ import annotations

from indexer.cli import main

if __name__ == "__main__":
    main()
