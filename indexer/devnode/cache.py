"""Rendered blocks kept outside the process's own memory."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

from indexer.devnode.rendering import Rendered


class RenderCache:
    """Rendered blocks in an unlinked temporary file, read through a mapping.

    The file's pages belong to the kernel, which drops them when others need the
    room, and to nobody once the process is gone, however it went. When the next
    block would pass ``limit`` bytes, the file is begun anew.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._file, path = tempfile.mkstemp(prefix="devnode-")
        Path(path).unlink()
        self._release = weakref.finalize(self, os.close, self._file)
        self._where: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._end = 0
        self._map: mmap.mmap | None = None

    def block(self, height: int, full: bool) -> bytes | None:
        """Return the block's object, with whole transactions or their hashes."""
        found = self._where.get(height)
        if found is None:
            return None
        at, (head, transactions, tail, hashes, _) = found
        view = self._mapped()
        if full:
            return view[at : at + head + transactions + tail]
        middle = at + head + transactions
        return (
            view[at : at + head]
            + view[middle + tail : middle + tail + hashes]
            + view[middle : middle + tail]
        )

    def receipts(self, height: int) -> bytes | None:
        """Return the list of the block's receipts."""
        found = self._where.get(height)
        if found is None:
            return None
        at, lengths = found
        end = at + sum(lengths)
        return self._mapped()[end - lengths[4] : end]

    def put(self, height: int, block: Rendered) -> None:
        """Keep a rendered block, if there is room for it."""
        data = b"".join(block)
        if len(data) > self._limit:
            return
        if self._end + len(data) > self._limit:
            self._where.clear()
            self._end = 0
        with suppress(OSError):
            # A full disk takes a part or nothing; the block is made again then.
            if os.pwrite(self._file, data, self._end) == len(data):
                self._where[height] = (self._end, tuple(map(len, block)))
                self._end += len(data)

    def drop_above(self, height: int) -> None:
        """Forget the blocks above a height; their room is not used again."""
        for gone in [kept for kept in self._where if kept > height]:
            del self._where[gone]

    def close(self) -> None:
        """Give the file back."""
        self._where.clear()
        if self._map is not None:
            self._map.close()
        self._release()

    def _mapped(self) -> mmap.mmap:
        """Return a mapping of all that is written."""
        if self._map is None or len(self._map) < self._end:
            if self._map is not None:
                self._map.close()
            self._map = mmap.mmap(self._file, 0, access=mmap.ACCESS_READ)
        return self._map
