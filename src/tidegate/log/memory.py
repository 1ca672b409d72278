"""Where the memory of a large read comes from: the allocator that takes it from the system evenly.

Arrow's usual allocator asks the kernel for huge pages. Where memory is fragmented, as on any machine
that has been up for a while, the kernel then tidies up while we wait, which can double the time of a
load. jemalloc takes ordinary pages and gives them back less eagerly. It serves for the length of one
read; arrays remember their own pool, so what was read may outlive it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

_lock = threading.Lock()
_readers = 0
_before: pa.MemoryPool | None = None


def _jemalloc() -> pa.MemoryPool | None:
    """The pool, where this build of Arrow has it."""
    try:
        return pa.jemalloc_memory_pool()
    except NotImplementedError:
        return None


@contextmanager
def steady_memory() -> Iterator[None]:
    """Arrow's default pool is the steady one for as long as any read of this kind goes on.

    A pool that the application chose itself (anything but Arrow's own default) is left alone.
    """
    global _readers, _before
    with _lock:
        _readers += 1
        if _readers == 1 and pa.default_memory_pool().backend_name == "mimalloc":
            pool = _jemalloc()
            if pool is not None:
                _before = pa.default_memory_pool()
                pa.set_memory_pool(pool)
    try:
        yield
    finally:
        with _lock:
            _readers -= 1
            if _readers == 0 and _before is not None:
                pa.set_memory_pool(_before)
                _before = None
