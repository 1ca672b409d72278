"""Building a split from Arrow batches, on the local disk: the index by tantivy, the rows as Arrow.

Rows keep their order: row N of the split is batch row N of what was added, and its id in the index says
so. Nothing is visible to anybody before the packed file is put into the table and committed.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from tidegate.errors import SplitBuildError, TidegateError, ValueNotIndexableError
from tidegate.index.encode import encoded
from tidegate.index.fields import NULLS, ROW, DocMapping, register
from tidegate.index.rows import ROWS, RowWriter, row_schema
from tidegate.index.split import SUFFIX, Packed, Source, pack
from tidegate.index.stats import INDEXED, Collector, Columns

HEAP = 100 << 20
_LEAST_HEAP, _MOST_HEAP = 15_000_000, 4_000_000_000
_SLICE = 8192
# tantivy's own files that an index opens without.
_LEFT_OUT = (".managed.json", ".tantivy-meta.lock", ".tantivy-writer.lock")


class SplitBuilder:
    """One split in the making. Use as a context manager: what it has on disk goes when it ends."""

    def __init__(
        self,
        mapping: DocMapping,
        *,
        heap: int = HEAP,
        rows: bool = True,
        statistics: Columns = INDEXED,
        directory: str | None = None,
    ) -> None:
        import tantivy

        self.mapping = mapping
        self._dir = Path(tempfile.mkdtemp(prefix="tidegate-split-", dir=directory))
        index = self._dir / "index"
        index.mkdir()
        self._schema = mapping.schema()
        self._index = tantivy.Index(self._schema, path=str(index))
        register(self._index, mapping)
        heap = min(max(heap, _LEAST_HEAP), _MOST_HEAP)
        # One thread keeps the order of rows, and leaves the other cores to other tasks.
        self._writer = self._index.writer(heap, 1)
        has_rows = rows and bool(mapping.stored)
        self._rows = RowWriter(self._dir / ROWS, row_schema(mapping)) if has_rows else None
        self.statistics = Collector(mapping, statistics)
        self._sources: list[Source] = []
        self._begin(None)

    @property
    def num_rows(self) -> int:
        return self._offset + self._count

    def next_source(self, file: str) -> None:
        """From here on the rows are those of another data file."""
        self._end_source()
        self._begin(file)

    def _begin(self, file: str | None) -> None:
        taken = {s.id for s in self._sources}
        self._id = next(i for i in iter(lambda: secrets.randbits(31), None) if i not in taken)
        self._offset = sum(s.rows for s in self._sources)
        self._count = 0
        self._file = file

    def _end_source(self) -> None:
        if self._count or self._file is not None:
            self._sources.append(Source(self._id, self._offset, self._count, self._file))

    def add(self, batch: pa.RecordBatch) -> None:
        """Index the rows of a batch, which has at least the columns of the mapping, by name."""
        for at in range(0, batch.num_rows, _SLICE):
            part = batch.slice(at, _SLICE)
            self.statistics.add(part)
            if self._rows is not None:
                self._rows.add(part)
            self._index_rows(part)

    def _index_rows(self, batch: pa.RecordBatch) -> None:
        from tantivy import Document

        if self._count + batch.num_rows >= 1 << 32:
            raise SplitBuildError("A split holds fewer than 2^32 rows.", hint="Write with more partitions.")
        make, add, schema = Document.from_dict, self._writer.add_document, self._schema
        try:
            for document in self._documents(batch):
                add(make(document, schema))
        except TidegateError:
            raise
        except Exception as e:
            raise ValueNotIndexableError(f"A row cannot be indexed: {e}") from e
        self._count += batch.num_rows

    def _documents(self, batch: pa.RecordBatch) -> Iterable[dict[str, Any]]:
        first = (self._id << 32) + self._count
        names, arrays = [ROW], [pa.array(range(first, first + batch.num_rows), pa.int64())]
        objects: list[tuple[str, list[Any]]] = []
        for field in self.mapping.indexed:
            values = encoded(batch.column(field.column), field)
            if isinstance(values, list):
                objects.append((field.name, values))
            else:
                names.append(field.name)
                arrays.append(values)
        # Arrow makes the dictionaries; a loop in Python over columns and rows takes twice as long.
        rows: list[dict[str, Any]] = pa.RecordBatch.from_arrays(arrays, names).to_pylist()
        for name, values in objects:
            for row, value in zip(rows, values, strict=True):
                row[name] = value
        if any(batch.column(f.column).null_count for f in self.mapping.fields):
            nulls = _null_names(batch, self.mapping)
            rows = [
                {**{n: v for n, v in row.items() if v is not None}, **({NULLS: gone} if gone else {})}
                for row, gone in zip(rows, nulls, strict=True)
            ]
        return rows

    def finish(self, target: Path | None = None) -> Packed:
        """Close the index and pack the split."""
        self._end_source()
        self._writer.commit()
        self._writer.wait_merging_threads()
        folder = self._dir / "index"
        members = {p.name: p for p in folder.iterdir() if p.name not in _LEFT_OUT}
        if self._rows is not None:
            self._rows.close()
            members[ROWS] = self._dir / ROWS
        return pack(members, target or self._dir / f"packed{SUFFIX}", self.mapping.to_json(), self._sources)

    def __enter__(self) -> SplitBuilder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._dir, ignore_errors=True)


def _null_names(batch: pa.RecordBatch, mapping: DocMapping) -> list[list[str]]:
    """For each row the names of its null columns: the answer to IS NULL, whatever the field's kind."""
    out: list[list[str]] = [[] for _ in range(batch.num_rows)]
    for field in mapping.fields:
        column = batch.column(field.column)
        if column.null_count:
            for at, null in enumerate(column.is_null().to_pylist()):
                if null:
                    out[at].append(field.name)
    return out
