"""Files on a local disk, written so that a crash leaves a name whole or absent.

Bytes reach the disk (fsync) before their name does, and the name before the call returns (fsync of
the directory). Put-if-absent publishes with a hard link, which never replaces; where there are no
hard links, with a rename that never replaces. Every step works on one open directory, so a
directory moved meanwhile cannot split a write in two.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa

from tidegate.errors import FileMissingError, NameTakenError, StorageError
from tidegate.storage.disk import (
    TEMP_PREFIX,
    open_directory,
    same_file,
    sync_directory,
    sync_path,
    temporary,
    unlink,
    write_all,
)
from tidegate.storage.names import check_directory, check_name, check_range
from tidegate.storage.rename import rename_exclusive
from tidegate.storage.store import Buffer, FileInfo

logger = logging.getLogger(__name__)

# Linux can write a file that has no name yet: a death leaves nothing, and the disk journals less.
_NAMELESS = getattr(os, "O_TMPFILE", 0)

_NO_LINKS = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.EXDEV, errno.ENOSYS, errno.EINVAL}
)
_NO_NAMELESS = _NO_LINKS | {errno.EISDIR, errno.ENOENT}
_NO_EXCLUSIVE_RENAME = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP})
_NOT_A_FILE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class Entries(NamedTuple):
    """What lies in one directory: files, directories, and the names of links to directories."""

    files: list[FileInfo]
    folders: list[FileInfo]
    linked: list[str]


class LocalStore:
    """The files below one directory."""

    def __init__(self, root_path: str | os.PathLike[str]) -> None:
        path = os.fspath(root_path)
        # abspath takes '..' away by text, which is another place when a symlink stands before it.
        self._root = os.path.realpath(path) if ".." in path.split("/") else os.path.abspath(path)
        self._prefix = self._root.rstrip("/") + "/"
        self._nameless = bool(_NAMELESS)

    @property
    def url(self) -> str:
        """The root as an absolute path."""
        return self._root

    def __repr__(self) -> str:
        return f"LocalStore({self._root!r})"

    # ------------------------------------------------------------------ reading

    def list_from(self, directory: str, start: str = "", *, recursive: bool = False) -> Iterator[FileInfo]:
        """Files below ``directory`` from ``start`` on, in order; sizes are read as they are asked for."""
        directory = check_directory(directory, self._root)
        logger.debug("list %s in %r from %r", self._root, directory, start)
        return self._walk(f"{directory}/" if directory else "", start, recursive)

    def _walk(self, below: str, start: str, recursive: bool) -> Iterator[FileInfo]:
        # A directory sorts as its name with the slash: all of "a/" comes after "a-b" and before "a0".
        # Order by code point, which is what str compares, is order by UTF-8 byte.
        keyed: list[tuple[str, os.DirEntry[str]]] = []
        try:
            with os.scandir(self._prefix + below) as entries:
                for entry in entries:
                    key = entry.name
                    if entry.is_dir():
                        key += "/"
                        if recursive and (key >= start or start.startswith(key)):
                            keyed.append((key, entry))
                    elif key >= start and not key.startswith(TEMP_PREFIX):
                        keyed.append((key, entry))
        except _NOT_A_FILE:
            return
        except OSError as error:
            raise self._failed(f"The directory {below!r} could not be listed", error) from error
        keyed.sort(key=lambda pair: pair[0])
        for key, entry in keyed:
            if key.endswith("/"):
                yield from self._walk(below + key, start.removeprefix(key) if key < start else "", True)
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue  # deleted since the directory was read, or a link to nowhere
            except OSError as error:
                raise self._failed(f"{below + key!r} could not be looked at", error, below + key) from error
            if stat.S_ISREG(status.st_mode):
                yield _info(below + key, status)

    def folders(self, directory: str) -> list[FileInfo]:
        """The directories directly in ``directory``; links to some are not among them."""
        directory = check_directory(directory, self._root)
        below = f"{directory}/" if directory else ""
        found = []
        try:
            with os.scandir(self._prefix + below) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        with suppress(FileNotFoundError):
                            found.append(_info(below + entry.name, entry.stat()))
        except _NOT_A_FILE:
            return []
        except OSError as error:
            raise self._failed(f"The directory {below!r} could not be listed", error) from error
        return sorted(found, key=lambda info: info.name)

    def entries(self, directory: str) -> Entries:
        """All that lies directly in ``directory``, looked at once."""
        directory = check_directory(directory, self._root)
        below = f"{directory}/" if directory else ""
        found = Entries([], [], [])
        try:
            with os.scandir(self._prefix + below) as entries:
                for entry in entries:
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            found.folders.append(_info(below + entry.name, entry.stat()))
                        elif entry.is_dir():
                            found.linked.append(below + entry.name)
                        elif not entry.name.startswith(TEMP_PREFIX) and entry.is_file():
                            found.files.append(_info(below + entry.name, entry.stat()))
                    except FileNotFoundError:
                        continue
                    except OSError:
                        # A link to itself, or to where nobody may look, leads to nothing either.
                        if not entry.is_symlink():
                            raise
        except _NOT_A_FILE:
            pass
        except OSError as error:
            raise self._failed(f"The directory {below!r} could not be listed", error) from error
        return found

    def moved(self, directories: Iterable[str]) -> dict[str, str | None]:
        """Of some directories, named below the root or absolutely, those whose names lead elsewhere.

        Each with its name below the root that has no links in it; None where it lies outside.
        """
        root = os.path.realpath(self._root).rstrip("/") + "/"
        links: dict[str, bool] = {}
        out: dict[str, str | None] = {}
        for directory in directories:
            base = "" if directory.startswith("/") else self._prefix
            odd = directory.startswith(".") or "/." in directory or "//" in directory
            for head in accumulate(directory.split("/"), "{}/{}".format):
                if head not in links:
                    links[head] = os.path.islink(base + head)
                odd = odd or links[head]
            if base and not odd:
                continue
            with suppress(ValueError):  # a NUL, which is in no name
                path = (os.path.realpath(base + directory) if odd else directory) + "/"
                name = path[len(root) : -1] if path.startswith(root) else None
                if name != directory:
                    out[directory] = name
        return out

    def get(self, name: str) -> bytes:
        """All bytes of ``name``."""
        path = self._path(name)
        logger.debug("get %s", path)
        with self._reading(name), open(path, "rb", buffering=0) as file:
            return file.read()

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``, fewer if the file ends before."""
        path = self._path(name)
        check_range(name, offset, length, self._root)
        logger.debug("get %s from %d, %d bytes", path, offset, length)
        with self._reading(name), open(path, "rb", buffering=0) as file:
            parts = []
            while length > 0 and (part := os.pread(file.fileno(), length, offset)):
                parts.append(part)
                offset, length = offset + len(part), length - len(part)
            return b"".join(parts)

    def open_input(self, name: str) -> pa.NativeFile:
        """The file, memory-mapped: a later ``put`` leaves what is mapped as it was."""
        path = self._path(name)
        logger.debug("open %s", path)
        with self._reading(name):
            if _status(path).st_size == 0:
                return pa.BufferReader(b"")  # nothing to map
            return pa.memory_map(path)

    def head(self, name: str) -> FileInfo:
        """Size and time of ``name``."""
        path = self._path(name)
        logger.debug("head %s", path)
        with self._reading(name):
            return _info(name, _status(path))

    # ------------------------------------------------------------------ writing

    def put(self, name: str, data: Buffer) -> None:
        """Write or replace ``name``."""
        self._write(name, data, replace=True)

    def put_if_absent(self, name: str, data: Buffer, *, durable: bool = True) -> None:
        """Write ``name`` unless it is there."""
        self._write(name, data, replace=False, durable=durable)

    def _write(self, name: str, data: Buffer, *, replace: bool, durable: bool = True) -> None:
        path = self._path(name)
        directory, _, leaf = path.rpartition("/")
        logger.debug("%s %s", "put" if replace else "put if absent", path)
        try:
            directory_fd = open_directory(directory)
            try:
                if replace:
                    self._replace(directory_fd, leaf, data)
                else:
                    self._publish(directory_fd, leaf, data, durable)
                if durable:
                    self._settle(directory_fd, name)
            finally:
                os.close(directory_fd)
        except FileExistsError:
            raise NameTakenError(f"{name!r} is there already.", table=self._root, file=name) from None
        except OSError as error:
            raise self._failed(f"{name!r} could not be written", error, name) from error

    @contextmanager
    def replacing(self, name: str) -> Iterator[str]:
        """The path of an empty file for the caller to write and sync; it takes ``name`` when the block ends.

        If the block fails the file is gone, and ``name`` is what it was.
        """
        directory, _, leaf = self._path(name).rpartition("/")
        logger.debug("put %s/%s, as it is made", directory, leaf)
        try:
            directory_fd = open_directory(directory)
            try:
                with temporary(directory_fd, b"", durable=False) as temp:
                    yield f"{directory}/{temp}"
                    _rename_over(directory_fd, temp, leaf)
                self._settle(directory_fd, name)
            finally:
                os.close(directory_fd)
        except OSError as error:
            raise self._failed(f"{name!r} could not be written", error, name) from error

    def _replace(self, directory_fd: int, leaf: str, data: Buffer) -> None:
        with temporary(directory_fd, data) as temp:
            _rename_over(directory_fd, temp, leaf)

    def _publish(self, directory_fd: int, leaf: str, data: Buffer, durable: bool) -> None:
        if not (self._nameless and self._publish_nameless(directory_fd, leaf, data, durable)):
            with temporary(directory_fd, data, durable=durable) as temp:
                self._give_name(directory_fd, temp, leaf)
        # The name was free, so a checksum beside it belongs to a file that is gone. From here on the
        # commit stands: what cannot be tidied must not look like a write that failed.
        with suppress(OSError):
            unlink(_companion(leaf), directory_fd)

    def _publish_nameless(self, directory_fd: int, leaf: str, data: Buffer, durable: bool) -> bool:
        """Publish through a file without a name; False if this file system cannot."""
        try:
            fd = os.open(".", _NAMELESS | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=directory_fd)
            try:
                write_all(fd, data)
                if durable:
                    os.fsync(fd)
                # The descriptor's entry in /proc is followed only if a src_dir_fd is given too.
                os.link(
                    f"/proc/self/fd/{fd}",
                    leaf,
                    src_dir_fd=directory_fd,
                    dst_dir_fd=directory_fd,
                    follow_symlinks=True,
                )
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno not in _NO_NAMELESS:
                raise
            logger.debug("%s: no nameless files here (%s)", self._root, error.strerror)
            self._nameless = False
            return False
        return True

    def _give_name(self, directory_fd: int, temp: str, leaf: str) -> None:
        try:
            os.link(temp, leaf, src_dir_fd=directory_fd, dst_dir_fd=directory_fd, follow_symlinks=False)
        except FileExistsError:
            # Over NFS a link whose answer was lost is sent again and then finds itself.
            if not same_file(directory_fd, temp, leaf):
                raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._rename(directory_fd, temp, leaf)

    def _rename(self, directory_fd: int, temp: str, leaf: str) -> None:
        try:
            rename_exclusive(directory_fd, temp, leaf)
        except OSError as error:
            if error.errno not in _NO_EXCLUSIVE_RENAME:
                raise
            raise StorageError(
                f"{leaf!r} was not written: this file system has neither hard links nor a rename that "
                "never replaces, so two writers could overwrite each other.",
                table=self._root,
                hint="Keep the table on a file system that has one of them, or in an object store.",
            ) from error

    def _settle(self, directory_fd: int, name: str) -> None:
        try:
            sync_directory(directory_fd)
        except OSError as error:
            what = f"{name!r} is written, but whether it outlasts a power failure is not known"
            raise self._failed(what, error, name) from error

    def delete(self, names: Iterable[str]) -> None:
        """Delete every name, and Hadoop's checksum file beside it."""
        touched: set[str] = set()
        for name in names:
            path = self._path(name)
            directory, _, leaf = path.rpartition("/")
            logger.debug("delete %s", path)
            try:
                if unlink(path) | unlink(f"{directory}/{_companion(leaf)}"):
                    touched.add(directory)
            except OSError as error:
                raise self._failed(f"{name!r} could not be deleted", error, name) from error
        for directory in touched:
            with suppress(FileNotFoundError):
                sync_path(directory)

    def sweep(self, directory: str, before: int) -> int:
        """Remove what writers that died had begun in ``directory`` before a time (ms); how many files."""
        directory = check_directory(directory, self._root)
        gone = 0
        try:
            with os.scandir(self._prefix + directory) as entries:
                for entry in entries:
                    if not entry.name.startswith(TEMP_PREFIX):
                        continue
                    with suppress(FileNotFoundError):
                        if entry.stat().st_mtime_ns // 1_000_000 < before:
                            gone += unlink(entry.path)
        except _NOT_A_FILE:
            return gone
        except OSError as error:
            raise self._failed(f"What was begun in {directory!r} could not be removed", error) from error
        return gone

    def remove_folders(self, names: Iterable[str]) -> list[str]:
        """Remove directories that are empty, in the order given; those that were. The others stay."""
        gone = []
        for name in names:
            path = self._path(name)
            logger.debug("remove directory %s", path)
            with suppress(OSError):
                os.rmdir(path)
                gone.append(name)
        return gone

    # ------------------------------------------------------------------ helpers

    def _path(self, name: str) -> str:
        return self._prefix + check_name(name, self._root)

    def _failed(self, what: str, error: OSError, name: str | None = None) -> StorageError:
        reason = os.strerror(error.errno) if error.errno else str(error)
        return StorageError(f"{what}: {reason}.", table=self._root, file=name)

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except _NOT_A_FILE:
            raise FileMissingError(f"There is no file {name!r}.", table=self._root, file=name) from None
        except OSError as error:
            raise self._failed(f"{name!r} could not be read", error, name) from error


def _status(path: str) -> os.stat_result:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return status


def _info(name: str, status: os.stat_result) -> FileInfo:
    return FileInfo(name, status.st_size, status.st_mtime_ns // 1_000_000)


def _rename_over(directory_fd: int, temp: str, leaf: str) -> None:
    # Hadoop checks NAME against .NAME.crc. Gone before the new bytes appear, no death between
    # the two leaves a checksum that refutes them.
    unlink(_companion(leaf), directory_fd)
    os.replace(temp, leaf, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)


def _companion(leaf: str) -> str:
    return f".{leaf}.crc"
