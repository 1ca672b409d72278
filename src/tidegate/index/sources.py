"""The data files behind a companion index: which rows of them are live, and their values.

A companion's split holds no rows: row N of a source is row N of a parquet file of the Delta table. A file
that is not live in the snapshot that is read gives nothing, a deletion vector takes its rows away, and a
file that no split covers yet is indexed on the spot, in the local cache, for this machine alone.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import DataFileCorruptError, DataFileMissingError, FileMissingError
from tidegate.files import deletion_vectors
from tidegate.files.deletion_vectors import DeletionVector
from tidegate.files.locating import locate
from tidegate.index.build import SplitBuilder
from tidegate.index.cache import shared_cache
from tidegate.index.fields import DocMapping
from tidegate.index.reader import OpenSplit, Rows
from tidegate.index.split import Packed, Source
from tidegate.schema.arrow import to_arrow_schema
from tidegate.schema.mapping import Mode, to_physical
from tidegate.schema.types import StructType, parse_schema
from tidegate.storage.opening import open_store

_OPEN_FILES = 64
_BATCH = 16_384


@dataclass(frozen=True, slots=True)
class SourceTable:
    """The Delta table, as far as reading its files goes: its schema is that of the snapshot that is read."""

    url: str
    schema: str
    mode: Mode = "none"

    @property
    def columns(self) -> StructType:
        return parse_schema(self.schema)

    def physical(self, columns: Iterable[str]) -> list[str]:
        """What data files call these columns."""
        fields = [f for c in columns if (f := self.columns.field(c)) is not None]
        return list(to_physical(StructType(tuple(fields)), self.mode).names)


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of the snapshot: its path in the log, and its deletion vector as JSON."""

    path: str
    size: int
    rows: int | None = None
    vector: str | None = None
    deleted: int = 0


class SourceRows:
    """The rows of a companion's split in the files they come from."""

    def __init__(
        self,
        table: SourceTable,
        sources: Sequence[Source],
        live: Sequence[LiveFile],
        options: dict[str, str] | None = None,
    ) -> None:
        self._table, self._options = table, options
        self._sources = sorted(sources, key=lambda s: s.offset)
        self._live = {f.path: f for f in live}
        self._starts = np.array([s.offset for s in self._sources], np.int64)

    @property
    def whole(self) -> bool:
        """Whether every row of the split is live."""
        files = (self._live.get(s.file or "") for s in self._sources)
        return all(f is not None and f.vector is None for f in files)

    def live(self, rows: Rows) -> Rows:
        """Of these rows, which are in order, those that are live."""
        if self.whole:
            return rows
        parts = []
        for source, part in self._by_source(rows):
            file = self._live.get(source.file or "")
            if file is None:
                continue
            if file.vector is not None:
                gone = np.array(self._deleted(file.vector), np.int64)
                part = part[~np.isin(part - source.offset, gone)]
            parts.append(part)
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _by_source(self, rows: Rows) -> list[tuple[Source, Rows]]:
        at = np.searchsorted(self._starts, rows, side="right") - 1
        return [(self._sources[i], rows[at == i]) for i in np.unique(at).tolist()]

    def _deleted(self, text: str) -> list[int]:
        vector = msgspec.json.decode(text, type=DeletionVector)
        store = open_store(self._table.url, self._options)

        def get_range(name: str, offset: int, length: int) -> bytes:
            where, at = locate(store, name, self._options)
            return where.get_range(at, offset, length)

        return list(deletion_vectors.read(vector, get_range))

    def fetch(self, rows: Rows, columns: Sequence[str]) -> pa.Table:
        """Columns of the Delta table for these rows, in their order."""
        if not columns:
            return pa.table({"_": pa.nulls(len(rows))})
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        parts = []
        for source, part in self._by_source(ordered):
            file = ParquetRows.at(self._table, self._live[source.file or ""].path, self._options)
            parts.append(file.take(part - source.offset, columns))
        if not parts:
            schema = to_arrow_schema(self._table.columns)
            return pa.schema([schema.field(c) for c in columns]).empty_table()
        table = pa.concat_tables(parts)
        if np.array_equal(order, np.arange(len(rows))):
            return table
        return table.take(pa.array(np.argsort(order, kind="stable")))


class ParquetRows:
    """One parquet file of a Delta table, under the table's own names and types."""

    _open: ClassVar[OrderedDict[tuple[SourceTable, str], ParquetRows]] = OrderedDict()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, table: SourceTable, path: str, options: dict[str, str] | None) -> None:
        self._table = table
        self._path = path
        store, name = locate(open_store(table.url, options), path, options)
        try:
            self._file = pq.ParquetFile(store.open_input(name), coerce_int96_timestamp_unit="us")
        except (FileMissingError, FileNotFoundError) as e:
            raise DataFileMissingError(
                "A data file that the log names is not there.", table=table.url, file=path
            ) from e
        except pa.ArrowException as e:
            raise DataFileCorruptError(
                f"The data file cannot be read: {e}.", table=table.url, file=path
            ) from e
        groups = self._file.metadata
        counts = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @classmethod
    def at(cls, table: SourceTable, path: str, options: dict[str, str] | None) -> ParquetRows:
        """The file, opened once; data files never change."""
        key = (table, path)
        with cls._lock:
            found = cls._open.get(key)
            if found is not None:
                cls._open.move_to_end(key)
                return found
        opened = cls(table, path, options)
        with cls._lock:
            cls._open[key] = opened
            while len(cls._open) > _OPEN_FILES:
                cls._open.popitem(last=False)
        return opened

    @property
    def num_rows(self) -> int:
        return int(self._starts[-1])

    def take(self, rows: Rows, columns: Sequence[str]) -> pa.Table:
        """Rows in ascending order; only the row groups in which they lie are read."""
        at = np.searchsorted(self._starts, rows, side="right") - 1
        parts = []
        for group in np.unique(at).tolist():
            within = rows[at == group] - self._starts[group]
            table = self._shaped(self._group(group, columns), columns)
            parts.append(table.take(pa.array(within)))
        return pa.concat_tables(parts)

    def batches(self, columns: Sequence[str]) -> Any:
        """All rows, in order."""
        for group in range(len(self._starts) - 1):
            yield from self._shaped(self._group(group, columns), columns).to_batches(_BATCH)

    def _group(self, group: int, columns: Sequence[str]) -> pa.Table:
        names = self._top_names(columns)
        present = [n for n in names if n in self._file.schema_arrow.names]
        with self._lock:
            # pyarrow's reader is not made for several threads at once.
            if not present:
                return pa.table({"_": pa.nulls(int(self._starts[group + 1] - self._starts[group]))})
            return self._file.read_row_group(group, columns=present)

    def _top_names(self, columns: Sequence[str]) -> list[str]:
        """The names of the columns in this file: by field id where ids count, else physical names."""
        fields = [f for c in columns if (f := self._table.columns.field(c)) is not None]
        physical = to_physical(StructType(tuple(fields)), self._table.mode)
        if self._table.mode != "id":
            folded = {n.casefold(): n for n in self._file.schema_arrow.names}
            return [folded.get(f.name.casefold(), f.name) for f in physical.fields]
        from tidegate.schema.mapping import field_id

        ids = {(f.metadata or {}).get(b"PARQUET:field_id"): f.name for f in self._file.schema_arrow}
        return [ids.get(str(field_id(f)).encode(), "") for f in fields]

    def _shaped(self, table: pa.Table, columns: Sequence[str]) -> pa.Table:
        from tidegate.spark.scan.readers import shaped

        fields = [f for c in columns if (f := self._table.columns.field(c)) is not None]
        logical = StructType(tuple(fields))
        physical = to_physical(logical, self._table.mode)
        by_id = self._table.mode == "id"
        wanted = to_arrow_schema(physical, field_ids=by_id)
        names = self._top_names(columns)
        arrays = []
        for name, field in zip(names, wanted, strict=True):
            if name not in table.column_names:
                arrays.append(pa.nulls(table.num_rows, field.type))
                continue
            chunks = [shaped(c, field.type, by_id) for c in table.column(name).chunks]
            arrays.append(pa.chunked_array(chunks, field.type))
        out = to_arrow_schema(logical)
        relabelled = [relabel(a, f.type) for a, f in zip(arrays, out, strict=True)]
        return pa.Table.from_arrays(relabelled, schema=pa.schema([pa.field(f.name, f.type) for f in out]))


def relabel(column: Any, wanted: pa.DataType) -> Any:
    """The same values under other names of inner fields."""
    if column.type == wanted:
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([relabel(c, wanted) for c in column.chunks], wanted)
    mask = column.is_null() if column.null_count else None
    if pa.types.is_struct(wanted):
        children = [relabel(column.field(i), wanted.field(i).type) for i in range(wanted.num_fields)]
        fields = [wanted.field(i) for i in range(wanted.num_fields)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if pa.types.is_map(wanted) or pa.types.is_list(wanted):
        column = pa.concat_arrays([column])
        if pa.types.is_list(wanted):
            return pa.ListArray.from_arrays(
                column.offsets, relabel(column.values, wanted.value_type), type=wanted, mask=mask
            )
        keys, items = relabel(column.keys, wanted.key_type), relabel(column.items, wanted.item_type)
        return pa.MapArray.from_arrays(column.offsets, keys, items, type=wanted, mask=mask)
    return column.cast(wanted)


def index_files(
    builder: SplitBuilder,
    table: SourceTable,
    paths: Sequence[str],
    options: dict[str, str] | None,
    columns: Sequence[str] | None = None,
) -> None:
    """Index whole data files, one source each, in order.

    ``columns`` are the names that the table has for the fields, where they are not the mapping's own.
    """
    fields = [f.column for f in builder.mapping.fields]
    for path in paths:
        builder.next_source(path)
        for batch in ParquetRows(table, path, options).batches(columns or fields):
            builder.add(batch.rename_columns(fields))


def open_unindexed(
    table: SourceTable, file: LiveFile, mapping: DocMapping, options: dict[str, str] | None
) -> OpenSplit:
    """A split of one data file that the companion does not cover yet."""
    text = "\0".join(
        (table.url, file.path, str(file.size), mapping.to_json(), *table.physical(f.column for f in mapping))
    )
    key = "scan-" + hashlib.sha256(text.encode()).hexdigest()[:32]

    def build(folder: Path) -> Packed:
        with SplitBuilder(mapping, rows=False, directory=str(folder)) as builder:
            index_files(builder, table, [file.path], options)
            return builder.finish(folder / "unindexed.split")

    return shared_cache().open_built(key, build)
