"""How far a stream has come in a table, and how much one batch may take. Pure values.

An offset names the last file that was passed on: the version it stands in and its place among that
version's files; ``BEFORE`` is the place before all of them. While the table as the stream found it
is passed on, the files are those of that snapshot and ``initial`` is true. The JSON form is that of
delta-spark.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import OptionError, StreamOffsetError

BEFORE = -1
DEFAULT_FILES = 1000

_FORMAT = 1
# Formats that can be read. From 3 on the place before all files is written as -100, and the places
# from -20 to -19 belong to the tracking of schemas, which is not served here.
_READABLE = (1, 3)
_BEFORE_V3 = -100


class _Wire(msgspec.Struct, rename="camel"):
    source_version: int
    reservoir_id: str
    reservoir_version: int
    index: int
    is_starting_version: bool


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Everything up to and including file ``index`` of ``version`` was passed on."""

    table_id: str
    version: int
    index: int = BEFORE
    initial: bool = False

    @property
    def position(self) -> tuple[int, int]:
        """What offsets of one table are ordered by."""
        return self.version, self.index

    def to_json(self) -> str:
        """The text that a checkpoint keeps; equal offsets have equal texts."""
        wire = _Wire(_FORMAT, self.table_id, self.version, self.index, self.initial)
        return msgspec.json.encode(wire).decode()

    @classmethod
    def from_json(cls, text: str, table_id: str, *, table: str | None = None) -> StreamOffset:
        """The offset in ``text``, which must be one of the table ``table_id``."""
        try:
            wire = msgspec.json.decode(text, type=_Wire)
        except msgspec.DecodeError as e:
            raise StreamOffsetError(
                f"The checkpoint holds {text!r}, which is not an offset of a table stream ({e}).", table=table
            ) from None
        if wire.source_version not in _READABLE:
            raise StreamOffsetError(
                f"The checkpoint's offset has format {wire.source_version}, which this release cannot read.",
                table=table,
                errorClass="DELTA_INVALID_FORMAT_FROM_SOURCE_VERSION",
            )
        if wire.reservoir_id != table_id:
            raise StreamOffsetError(
                f"The checkpoint belongs to a table with the id {wire.reservoir_id}, this one is {table_id}.",
                table=table,
                hint="The table was replaced by another one; start the query with a new checkpoint.",
                errorClass="DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
            )
        index = BEFORE if wire.index == _BEFORE_V3 else wire.index
        if index < BEFORE or wire.reservoir_version < 0:
            raise StreamOffsetError(
                f"The checkpoint stands at place {wire.index} of version {wire.reservoir_version}, "
                "which only a query with schema tracking knows.",
                table=table,
                hint="Finish the change of schema where it was begun, or start with a new checkpoint.",
            )
        return cls(table_id, wire.reservoir_version, index, wire.is_starting_version)

    def next_version(self) -> StreamOffset:
        """All of this version was passed on."""
        return StreamOffset(self.table_id, self.version + 1)

    def at(self, index: int) -> StreamOffset:
        """The same version, up to and including file ``index``."""
        return StreamOffset(self.table_id, self.version, index, self.initial)


def check_forward(start: StreamOffset, end: StreamOffset) -> None:
    """A stream never goes back: rows would be passed on twice."""
    if end.position < start.position or (end.initial and not start.initial):
        raise StreamOffsetError(
            f"The stream would go back from {start.to_json()} to {end.to_json()}.",
            hint="The checkpoint was changed by hand, or belongs to another query.",
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a batch may take; None is no limit."""

    files: int | None = DEFAULT_FILES
    size: int | None = None

    @classmethod
    def of(cls, files: str | None, size: str | None) -> Limits:
        """The limits that the options of a stream say. Bytes alone leave the number of files open."""
        parsed = None if size is None else byte_count(size)
        if files is None:
            return cls(DEFAULT_FILES if parsed is None else None, parsed)
        if not files.isdecimal() or int(files) == 0:
            raise OptionError(f"maxFilesPerTrigger is {files!r}; it is a whole number above zero.")
        return cls(int(files), parsed)


NO_LIMITS = Limits(None, None)

_UNITS = {"": 0, "b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40}


def byte_count(text: str) -> int:
    """A size as Spark spells it: ``1024``, ``10m``, ``1g``."""
    number = text.strip().lower()
    unit = number.lstrip("0123456789")
    digits = number[: len(number) - len(unit)]
    shift = _UNITS.get(unit.strip())
    if not digits or shift is None or int(digits) == 0:
        raise OptionError(
            f"maxBytesPerTrigger is {text!r}; it is a size above zero.", hint="Write it like 1g or 500m."
        )
    return int(digits) << shift


class Budget:
    """What is left of the limits of one batch. The last file may go beyond the bytes."""

    def __init__(self, limits: Limits) -> None:
        self._files = limits.files
        self._size = limits.size
        self._used = False

    @property
    def spent(self) -> bool:
        return (self._files is not None and self._files <= 0) or (self._size is not None and self._size <= 0)

    def admit(self, sizes: pa.Array | pa.ChunkedArray) -> int:
        """How many of the next files, in order, the batch may take; they are taken."""
        if self.spent:
            return 0
        count = len(sizes) if self._files is None else min(len(sizes), self._files)
        if self._size is not None and count:
            before = pc.subtract(pc.cumulative_sum(sizes), sizes)
            count = min(count, pc.sum(pc.less(before, self._size)).as_py() or 0)
        self._take(count, pc.sum(sizes.slice(0, count)).as_py() or 0)
        return count

    def admit_whole(self, sizes: pa.Array | pa.ChunkedArray) -> bool:
        """Whether a commit that must stay together fits; the first one always does."""
        total = pc.sum(sizes).as_py() or 0
        fits = (self._files is None or len(sizes) <= self._files) and (
            self._size is None or total <= self._size
        )
        if not len(sizes):
            return True
        if self._used and not fits:
            self._files = 0 if self._files is not None else None
            self._size = 0 if self._size is not None else None
            return False
        self._take(len(sizes), total)
        return True

    def _take(self, count: int, size: int) -> None:
        self._used = self._used or count > 0
        if self._files is not None:
            self._files -= count
        if self._size is not None:
            self._size -= size
