"""A store in this process's memory that can be made to fail, wait and die.

It ships with the product so that users test their pipelines with it as we test Tidegate. It keeps
the contract of every store, and modification times never go backwards. Faults belong to one
handle: others over the same bytes (``handle``) live on, as other machines would.
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from tidegate.errors import FileMissingError, NameTakenError, StorageError
from tidegate.storage.names import check_directory, check_name, check_range
from tidegate.storage.store import Buffer, FileInfo

logger = logging.getLogger(__name__)

Clock: TypeAlias = Callable[[], int]
Hook: TypeAlias = Callable[[str, str], None]
When: TypeAlias = Literal["before", "after"]
_T = TypeVar("_T")

MUTATING = frozenset({"put", "put_if_absent", "delete"})


class StoreDied(BaseException):
    """The process would be dead here; no ``except Exception`` may carry on."""


class Operation(NamedTuple):
    """One line of the journal."""

    op: str
    name: str


@dataclass(frozen=True, slots=True)
class _File:
    data: bytes
    modified: int


@dataclass(slots=True)
class _Fault:
    left: int
    mutating: bool
    when: When
    action: Callable[[], None]


class _Disk:
    """The bytes, apart from any handle: what a crash leaves."""

    def __init__(self, clock: Clock) -> None:
        self.lock = threading.RLock()
        self.clock = clock
        self.files: dict[str, _File] = {}
        self.names: list[str] = []  # the keys of files, in order
        self.latest = 0

    def write(self, name: str, data: bytes) -> None:
        self.latest = max(self.latest, self.clock())
        if name not in self.files:
            insort(self.names, name)
        self.files[name] = _File(data, self.latest)

    def remove(self, name: str) -> None:
        if self.files.pop(name, None) is not None:
            del self.names[bisect_left(self.names, name)]

    def copy(self) -> _Disk:
        with self.lock:
            twin = _Disk(self.clock)
            twin.files, twin.names, twin.latest = dict(self.files), list(self.names), self.latest
            return twin


class MemoryStore:
    """Bytes in memory, with a journal, a hook and planned faults.

    ``hook(op, name)`` runs before every operation, outside of any lock: it may wait for other
    threads or raise, and it may look at the bytes through another ``handle``. A ``delete`` counts as
    one operation per name, since a crash may come between two of them.
    """

    def __init__(
        self, *, url: str = "memory://", clock: Clock | None = None, hook: Hook | None = None
    ) -> None:
        self._disk = _Disk(clock or _wall_clock)
        self._url = url
        self._prefix = ""
        self._start(hook)

    def _start(self, hook: Hook | None) -> None:
        self.hook = hook
        self.journal: list[Operation] = []
        self._faults: list[_Fault] = []
        self._dead = False
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The root, as opened."""
        return self._url

    def __repr__(self) -> str:
        return f"MemoryStore({self._url!r})"

    # ------------------------------------------------------------------ handles and faults

    def handle(self, directory: str = "", *, url: str | None = None, hook: Hook | None = None) -> MemoryStore:
        """Another store on the same bytes, rooted at ``directory``, with faults and journal of its own."""
        return self._onto(self._disk, directory, url, hook)

    def survivor(self) -> MemoryStore:
        """A fresh store with these bytes: the disk as the crash left it."""
        return self._onto(self._disk.copy(), "", None, None)

    def _onto(self, disk: _Disk, directory: str, url: str | None, hook: Hook | None) -> MemoryStore:
        directory = check_directory(directory, self._url)
        other = MemoryStore.__new__(MemoryStore)
        other._disk = disk
        other._prefix = f"{self._prefix}{directory}/" if directory else self._prefix
        other._url = url if url is not None else f"{self._url}/{directory}" if directory else self._url
        other._start(hook)
        return other

    @property
    def dead(self) -> bool:
        """Whether a planned death has come."""
        return self._dead

    def die_at(self, n: int, *, mutating: bool = False, when: When = "before") -> None:
        """Die at the ``n``-th operation from now (of the ``mutating`` ones only, if so asked).

        ``when`` says whether that operation still takes effect. It and all later ones raise
        ``StoreDied``.
        """
        self.call_at(n, self._die, mutating=mutating, when=when)

    def fail_at(
        self, n: int, error: BaseException | None = None, *, mutating: bool = False, when: When = "before"
    ) -> None:
        """Raise ``error`` at the ``n``-th operation from now; those after it go well."""
        planned = error or StorageError("This operation was told to fail.", table=self._url)

        def fail() -> None:
            raise planned

        self.call_at(n, fail, mutating=mutating, when=when)

    def call_at(
        self, n: int, action: Callable[[], None], *, mutating: bool = False, when: When = "before"
    ) -> None:
        """Call ``action`` at the ``n``-th operation from now: to delay it, or to let others go first."""
        if n < 1 or when not in ("before", "after"):
            raise StorageError(
                f"No operation is number {n}, {when!r}: they count from 1, 'before' or 'after'."
            )
        with self._lock:
            self._faults.append(_Fault(n, mutating, when, action))

    def set_modified(self, name: str, modified: int) -> None:
        """Say when ``name`` was written; counts as no operation."""
        key = self._key(name)
        with self._disk.lock:
            self._disk.files[key] = replace(self._file(key), modified=modified)

    def _die(self) -> None:
        self._dead = True
        raise StoreDied("the store was told to die here")

    def _live(self) -> None:
        if self._dead:
            raise StoreDied("the store has died")

    def _operate(self, op: str, name: str, effect: Callable[[], _T]) -> _T:
        self._live()
        if self.hook is not None:
            self.hook(op, name)
        with self._lock:
            self._live()
            self.journal.append(Operation(op, name))
            due = self._due(op)
        logger.debug("%s %s/%s", op, self._url, name)
        for fault in due:
            if fault.when == "before":
                fault.action()
        with self._disk.lock:
            self._live()  # death in another thread must not let this one change a byte
            try:
                answer: _T | StorageError = effect()
            except StorageError as error:
                answer = error
        for fault in due:
            if fault.when == "after":
                fault.action()
        if isinstance(answer, StorageError):
            raise answer
        return answer

    def _due(self, op: str) -> list[_Fault]:
        due = []
        for fault in self._faults:
            if op in MUTATING or not fault.mutating:
                fault.left -= 1
                if fault.left == 0:
                    due.append(fault)
        self._faults = [fault for fault in self._faults if fault.left > 0]
        return due

    # ------------------------------------------------------------------ the contract

    def list_from(self, directory: str, start: str = "", *, recursive: bool = False) -> Iterator[FileInfo]:
        """Files below ``directory`` from ``start`` on, as they are at the call."""
        directory = check_directory(directory, self._url)
        below = f"{self._prefix}{directory}/" if directory else self._prefix
        return iter(self._operate("list_from", directory, lambda: self._listing(below, start, recursive)))

    def _listing(self, below: str, start: str, recursive: bool) -> list[FileInfo]:
        names, found = self._disk.names, []
        for index in range(bisect_left(names, below + start), len(names)):
            key = names[index]
            if not key.startswith(below):
                break
            if recursive or "/" not in key[len(below) :]:
                file = self._disk.files[key]
                found.append(FileInfo(key[len(self._prefix) :], len(file.data), file.modified))
        return found

    def get(self, name: str) -> bytes:
        """All bytes of ``name``."""
        key = self._key(name)
        return self._operate("get", name, lambda: self._file(key).data)

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``, fewer if the file ends before."""
        key = self._key(name)
        check_range(name, offset, length, self._url)
        return self._operate("get_range", name, lambda: self._file(key).data[offset : offset + length])

    def open_input(self, name: str) -> pa.NativeFile:
        """A reader over the bytes themselves."""
        key = self._key(name)
        return self._operate("open_input", name, lambda: pa.BufferReader(self._file(key).data))

    def put(self, name: str, data: Buffer) -> None:
        """Write or replace ``name``."""
        key, content = self._key(name), bytes(data)
        self._operate("put", name, lambda: self._disk.write(key, content))

    def put_if_absent(self, name: str, data: Buffer, *, durable: bool = True) -> None:
        """Write ``name`` unless it is there."""
        key, content = self._key(name), bytes(data)

        def write() -> None:
            if key in self._disk.files:
                raise NameTakenError(f"{name!r} is there already.", table=self._url, file=name)
            self._disk.write(key, content)

        self._operate("put_if_absent", name, write)

    def delete(self, names: Iterable[str]) -> None:
        """Delete every name, one operation each."""
        for name in names:
            key = self._key(name)
            self._operate("delete", name, partial(self._disk.remove, key))

    def head(self, name: str) -> FileInfo:
        """Size and time of ``name``."""
        key = self._key(name)
        file = self._operate("head", name, lambda: self._file(key))
        return FileInfo(name, len(file.data), file.modified)

    def _key(self, name: str) -> str:
        return self._prefix + check_name(name, self._url)

    def _file(self, key: str) -> _File:
        try:
            return self._disk.files[key]
        except KeyError:
            name = key[len(self._prefix) :]
            raise FileMissingError(f"There is no file {name!r}.", table=self._url, file=name) from None


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000
