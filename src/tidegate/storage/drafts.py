"""Large files that are written as they are made, and take their name when they are whole.

On a local disk what was written first is on its way there while the rest is being made, so that the sync
at the end has little left to wait for. Other stores take a file in one piece: there a draft is memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol

import pyarrow as pa

from tidegate.storage.local import LocalStore
from tidegate.storage.store import Store


class Draft(Protocol):
    """A file without its name yet."""

    @property
    def sink(self) -> pa.NativeFile:
        """Where its bytes go."""
        ...

    def nudge(self) -> None:
        """What was written so far may go to the disk now; does not wait."""
        ...

    def written(self) -> pa.NativeFile:
        """What was written, to be looked at before it is published."""
        ...


@contextmanager
def drafting(store: Store, name: str) -> Iterator[Draft]:
    """A draft of ``name``, which it becomes, or replaces, when the block ends well; else nothing is left."""
    if isinstance(store, LocalStore):
        with store.replacing(name) as path, _DiskDraft(path) as draft:
            yield draft
            draft.sync()
        return
    memory = MemoryDraft()
    yield memory
    store.put(name, memory.sink.getvalue())


class MemoryDraft:
    """A draft in memory."""

    def __init__(self) -> None:
        self.sink = pa.BufferOutputStream()

    def nudge(self) -> None:
        return None

    def written(self) -> pa.NativeFile:
        return pa.BufferReader(self.sink.getvalue())


class _DiskDraft:
    """A draft in a file of its own, synced by a thread that runs behind the writer."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.sink = pa.OSFile(path, "wb")
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._behind: ThreadPoolExecutor | None = None
        self._syncing: Future[None] | None = None

    def __enter__(self) -> _DiskDraft:
        return self

    def __exit__(self, *_: object) -> None:
        if self._behind is not None:
            self._behind.shutdown()
        self.sink.close()
        os.close(self._fd)

    def nudge(self) -> None:
        if self._behind is None:
            self._behind = ThreadPoolExecutor(1, thread_name_prefix="tidegate-draft")
        if self._syncing is None or self._syncing.done():
            self._syncing = self._behind.submit(os.fsync, self._fd)

    def written(self) -> pa.NativeFile:
        self.sink.flush()
        return pa.memory_map(self._path)

    def sync(self) -> None:
        """Everything is on the disk; what the syncs on the way met is met again here."""
        self.sink.flush()
        os.fsync(self._fd)
