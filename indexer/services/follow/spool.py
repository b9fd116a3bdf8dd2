"""Fetched blocks on disk, until one transaction takes them all."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from indexer.rows import BlockData
from indexer.services.proofs import Fetched


class Spool:
    """Chunks of blocks in an unnamed file, so that memory holds one at a time (P1).

    A replacement has to be in hand before anything is deleted, and forks of hundreds
    of dense blocks have been seen.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="indexer-")  # noqa: SIM115
        self._chunks = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def put(self, fetched: Fetched[BlockData]) -> None:
        """Add a chunk."""
        pickle.dump(fetched, self._file, protocol=pickle.HIGHEST_PROTOCOL)
        self._chunks += 1

    def chunks(self) -> Iterator[Fetched[BlockData]]:
        """Return the chunks in their order; from the start each time."""
        self._file.seek(0)
        for _ in range(self._chunks):
            chunk: Fetched[BlockData] = pickle.load(self._file)
            yield chunk
