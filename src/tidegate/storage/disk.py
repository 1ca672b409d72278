"""The system calls that a durable write is made of.

Each helper leaves the disk in a state that a crash right after it may keep: bytes are synced before
anyone names them, and a directory's parent is synced when the directory is made.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tidegate.storage.store import Buffer

# A process that dies may leave one behind; listings pass it over, and no reader takes the name for its own.
TEMP_PREFIX = ".tidegate-tmp-"

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_NO_DIRECTORY_SYNC = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP})


@contextmanager
def temporary(directory_fd: int, data: Buffer, *, durable: bool = True) -> Iterator[str]:
    """A file with ``data`` on disk under a name of no meaning, gone afterwards."""
    temp = TEMP_PREFIX + uuid.uuid4().hex
    fd = os.open(temp, _NEW_FILE, 0o666, dir_fd=directory_fd)
    try:
        try:
            write_all(fd, data)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        yield temp
    finally:
        # What cannot be tidied is passed over by listings; it must not turn a success into a failure.
        with suppress(OSError):
            unlink(temp, directory_fd)


def write_all(fd: int, data: Buffer) -> None:
    view = memoryview(data).cast("B")
    while view:
        view = view[os.write(fd, view) :]


def unlink(path: str, directory_fd: int | None = None) -> bool:
    """Remove a file; False if there is none."""
    try:
        os.unlink(path, dir_fd=directory_fd)
    except OSError as error:
        # Too long a name is none either: a checksum's name is longer than the file's own.
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
            raise
        return False
    return True


def same_file(directory_fd: int, one: str, other: str) -> bool:
    try:
        return os.path.samestat(os.stat(one, dir_fd=directory_fd), os.stat(other, dir_fd=directory_fd))
    except OSError:
        return False


def open_directory(path: str) -> int:
    try:
        return os.open(path or "/", _DIRECTORY)
    except FileNotFoundError:
        _make_directories(path)
        return os.open(path, _DIRECTORY)


def _make_directories(path: str) -> None:
    missing = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for directory in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(directory)
        # Even if another writer made it: whether that one has synced yet cannot be known.
        sync_path(os.path.dirname(directory))


def sync_path(directory: str) -> None:
    fd = os.open(directory or "/", _DIRECTORY)
    try:
        sync_directory(fd)
    finally:
        os.close(fd)


def sync_directory(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        # Some network file systems keep directories in order by themselves and refuse the call.
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise
