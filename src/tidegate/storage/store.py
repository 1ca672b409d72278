"""The small contract between the log and the bytes under a table's URL.

Names are relative to the store's root, with ``/`` between segments, and are taken literally: URI
decoding is the log's business. Invariants every backend keeps: a name is visible with all of its
bytes or not at all; of two ``put_if_absent`` of one name exactly one succeeds; a listing comes in
the order of UTF-8 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

Buffer: TypeAlias = bytes | bytearray | memoryview | pa.Buffer


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One object: its name, its size in bytes and when it was written (milliseconds, UTC)."""

    name: str
    size: int
    modified: int


@runtime_checkable
class Store(Protocol):
    """Bytes under one root URL."""

    @property
    def url(self) -> str:
        """The root as a person would write it; never carries credentials."""
        ...

    def list_from(self, directory: str, start: str = "", *, recursive: bool = False) -> Iterator[FileInfo]:
        """Files below ``directory`` whose path below it is >= ``start``, lazily and in order.

        Not ``recursive``: only files directly in it. ``FileInfo.name`` is relative to the root.
        A directory that does not exist is empty.
        """
        ...

    def get(self, name: str) -> bytes:
        """All bytes of ``name``; ``FileMissingError`` if it is not there."""
        ...

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``, fewer if the file ends before."""
        ...

    def open_input(self, name: str) -> pa.NativeFile:
        """A seekable file for pyarrow's readers, memory-mapped where that can be."""
        ...

    def put(self, name: str, data: Buffer) -> None:
        """Write or replace ``name``, whole or not at all."""
        ...

    def put_if_absent(self, name: str, data: Buffer, *, durable: bool = True) -> None:
        """Write ``name`` unless it is there; ``NameTakenError`` if it is and is not our own.

        What is not ``durable`` may be lost or cut short by a power failure, never by a killed
        process: for files that are as good as none when they cannot be believed.
        """
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Delete every name; one that is not there is no error."""
        ...

    def head(self, name: str) -> FileInfo:
        """Size and time of ``name``; ``FileMissingError`` if it is not there."""
        ...


@runtime_checkable
class Foldered(Protocol):
    """A store that can tell which folders there are without listing what is in them."""

    def folders(self, directory: str) -> list[FileInfo]:
        """The folders directly below ``directory``, in order; their times are 0 where a store has none."""
        ...
