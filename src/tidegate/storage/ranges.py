"""A seekable file over range requests, for objects too large to fetch whole.

pyarrow reads a parquet file in many small steps; each miss fetches a window ahead, so steps that
follow one another cost one request. Invariant: at most one window is held in memory.
"""

from __future__ import annotations

import io
from collections.abc import Callable

READ_AHEAD = 1 << 20


class RangeFile(io.RawIOBase):
    """``fetch(offset, length)`` as a read-only binary file of ``size`` bytes."""

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, ahead: int = READ_AHEAD) -> None:
        super().__init__()
        self._fetch = fetch
        self._size = size
        self._ahead = ahead
        self._at = 0
        self._window = b""
        self._window_at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError(f"cannot seek to {base + offset}")
        self._at = base + offset
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; fewer only at the end."""
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted == 0:
            return b""
        skip = self._at - self._window_at
        if not 0 <= skip <= skip + wanted <= len(self._window):
            self._window = self._fetch(self._at, min(left, max(wanted, self._ahead)))
            self._window_at, skip = self._at, 0
        data = self._window[skip : skip + wanted]
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        return self.read(-1)

    # The base class takes any writable buffer, a type that Python has a name for from 3.12 on only.
    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # callers hand memoryviews
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
