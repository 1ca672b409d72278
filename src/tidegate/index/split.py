"""A split: one immutable file with everything a search needs.

Members one after the other (the files of a tantivy index, and ``rows.blocks`` with the stored columns),
then the footer: JSON that names each member with its place and checksum, then its length (8 bytes,
little endian) and the magic. ``footerStartOffset..footerEndOffset`` of the add action is that tail, so the
table of contents costs one ranged read. A member that does not match its checksum is never used.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa

from tidegate.errors import DataFileCorruptError
from tidegate.index.fields import DocMapping, decode_mapping
from tidegate.index.rows import OLD_ROWS, ROWS
from tidegate.storage.store import Store

MAGIC = b"TDGSPLT1"
SUFFIX = ".split"
_TAIL = struct.Struct("<Q8s")
_CHUNK = 1 << 22
# Members begin where numbers in them can be read in place.
_ALIGNMENT = 64


class Member(msgspec.Struct, frozen=True):
    """One file inside the split: where it lies, and the CRC-32 of its bytes."""

    start: int
    end: int
    crc: int

    @property
    def size(self) -> int:
        return self.end - self.start


class Source(msgspec.Struct, frozen=True):
    """A run of rows that was indexed together: ids ``id << 32`` upward are the rows from ``offset`` on.

    In a companion's split ``file`` is the data file that the rows are in, by its path in the log.
    """

    id: int
    offset: int
    rows: int
    file: str | None = None


class Footer(msgspec.Struct, frozen=True):
    """The table of contents."""

    format: str
    version: int
    rows: int
    mapping: str
    sources: tuple[Source, ...]
    members: dict[str, Member]

    @property
    def doc_mapping(self) -> DocMapping:
        return decode_mapping(self.mapping)

    @property
    def index_members(self) -> dict[str, Member]:
        return {n: m for n, m in self.members.items() if n not in (ROWS, OLD_ROWS)}

    @property
    def row_member(self) -> str | None:
        """The member that holds the stored columns."""
        return next((n for n in (ROWS, OLD_ROWS) if n in self.members), None)


@dataclass(frozen=True, slots=True)
class Packed:
    """A split on the local disk, ready to be put where the table wants it."""

    path: Path
    size: int
    footer_start: int
    footer: Footer


def pack(members: Mapping[str, Path], target: Path, mapping: str, sources: Iterable[Source]) -> Packed:
    """Write one split from the files that make it."""
    table: dict[str, Member] = {}
    with target.open("wb") as out:
        for name in sorted(members):
            out.write(bytes(-out.tell() % _ALIGNMENT))
            start, crc = out.tell(), 0
            with members[name].open("rb") as file:
                while chunk := file.read(_CHUNK):
                    crc = zlib.crc32(chunk, crc)
                    out.write(chunk)
            table[name] = Member(start, out.tell(), crc)
        start = out.tell()
        found = tuple(sources)
        footer = Footer("tidegate-split", 1, sum(s.rows for s in found), mapping, found, table)
        text = msgspec.json.encode(footer)
        out.write(text)
        out.write(_TAIL.pack(len(text), MAGIC))
    return Packed(target, os.path.getsize(target), start, footer)


def read_footer(
    store: Store, name: str, size: int | None = None, start: int | None = None, end: int | None = None
) -> Footer:
    """The table of contents of the split ``name``; with the offsets of its add action in one read."""
    if start is None or end is None:
        size = store.head(name).size if size is None else size
        start = max(0, size - (1 << 16))
        end = size
    tail = store.get_range(name, start, end - start)
    length = _footer_length(tail, name)
    if length + _TAIL.size > len(tail):
        tail = store.get_range(name, end - length - _TAIL.size, length + _TAIL.size)
    return _decode(tail[-_TAIL.size - length : -_TAIL.size], name)


def _footer_length(tail: bytes, name: str) -> int:
    if len(tail) < _TAIL.size:
        raise _corrupt(name, "it is too short to be a split")
    length, magic = _TAIL.unpack(tail[-_TAIL.size :])
    if magic != MAGIC or length > 1 << 32:
        raise _corrupt(name, "it does not end as a split of this client does")
    return int(length)


def _decode(text: bytes, name: str) -> Footer:
    try:
        return msgspec.json.decode(text, type=Footer)
    except msgspec.MsgspecError as e:
        raise _corrupt(name, f"its footer cannot be read: {e}") from e


def extract(source: pa.NativeFile, name: str, members: Mapping[str, Member], target: Path) -> None:
    """Copy members out of an open split into a folder, each checked against its checksum."""
    for member, at in members.items():
        source.seek(at.start)
        crc, left = 0, at.size
        with (target / member).open("wb") as out:
            while left:
                chunk = source.read(min(left, _CHUNK))
                if not chunk:
                    raise _corrupt(name, f"it ends within {member}")
                crc = zlib.crc32(chunk, crc)
                out.write(chunk)
                left -= len(chunk)
        if crc != at.crc:
            raise _corrupt(name, f"the bytes of {member} do not match their checksum")


def _corrupt(name: str, what: str) -> DataFileCorruptError:
    return DataFileCorruptError(
        f"The split cannot be used: {what}.",
        file=name,
        hint="Restore it from a copy, or drop its partition; other splits are not touched by this.",
    )
