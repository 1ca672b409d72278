"""Rename without replacing, for file systems that have no hard links.

Python offers no such call: Linux has ``renameat2`` with ``RENAME_NOREPLACE``, macOS
``renameatx_np`` with ``RENAME_EXCL``. Either is atomic in the kernel; an emulation by "look, then
rename" would not be, so where neither can be had the answer is ``ENOSYS`` and nothing is renamed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

_RENAME_NOREPLACE = 1
_RENAME_EXCL = 4


@lru_cache(maxsize=1)
def _kernel_call() -> tuple[Callable[..., Any], int] | None:
    """The C function and its flag, or None where this libc has none."""
    names = {"linux": ("renameat2", _RENAME_NOREPLACE), "darwin": ("renameatx_np", _RENAME_EXCL)}
    if sys.platform not in names:
        return None
    symbol, flag = names[sys.platform]
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), symbol)
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    return function, flag


def rename_exclusive(directory_fd: int, old: str, new: str) -> None:
    """Rename ``old`` to ``new`` in one directory; ``FileExistsError`` if ``new`` is there."""
    call = _kernel_call()
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), new)
    function, flag = call
    if function(directory_fd, os.fsencode(old), directory_fd, os.fsencode(new), flag) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), new)
