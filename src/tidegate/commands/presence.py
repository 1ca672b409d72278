"""Whether the files that actions name are there: data files and the files of deletion vectors."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from tidegate.commands.table_names import below, vector_names
from tidegate.errors import FileMissingError
from tidegate.log.table_log import TableLog
from tidegate.storage.opening import open_store

_THREADS = 8


def missing_files(log: TableLog, files: pa.Table) -> list[str]:
    """The names, below the table or absolute, of files that are not there."""
    names = set(below(log.url, files.column("path")).to_pylist())
    names |= vector_names(log.url, files.column("deletionVector"))
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="tidegate-presence") as pool:
        found = pool.map(lambda name: (name, _is_there(log, name)), sorted(names))
        return [name for name, there in found if not there]


def is_folder(log: TableLog) -> bool:
    """Whether there is anything at the place of a log that is not there; on a disk an empty folder too."""
    if log.url.startswith("/"):
        return os.path.exists(log.url)
    return next(iter(log.store.list_from("", recursive=True)), None) is not None


def _is_there(log: TableLog, name: str) -> bool:
    try:
        if name.startswith("/") or ":/" in name:
            folder, _, leaf = name.rpartition("/")
            open_store(folder or "/").head(leaf)
        else:
            log.store.head(name)
    except FileMissingError:
        return False
    return True


def shown(names: Iterable[str], most: int = 5) -> str:
    """Some names for a message."""
    names = list(names)
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
