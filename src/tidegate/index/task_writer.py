"""The splits of one task: built on its local disk, put at their final place, and told of by task commits.

A split has a name that nobody else has, so what a failed or repeated task has put there is referred to by
nothing, and ``purge`` takes it away. The same writer serves tasks of Spark and writes without it.
"""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.files.partitions import partition_directory, serialize
from tidegate.files.paths import encode_path
from tidegate.index.build import HEAP, SplitBuilder
from tidegate.index.fields import DocMapping, decode_mapping
from tidegate.index.settings import Settings
from tidegate.index.split import SUFFIX
from tidegate.index.stats import Columns, chosen
from tidegate.index.travel import task
from tidegate.schema.types import StructType, parse_schema
from tidegate.storage.opening import open_store

_TARGET = 1 << 30

COMMIT = pa.schema(
    [
        ("path", pa.string()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("stats", pa.string()),
        ("numRecords", pa.int64()),
        ("footerStartOffset", pa.int64()),
        ("footerEndOffset", pa.int64()),
        ("uncompressedSizeBytes", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Layout:
    """What a task must know."""

    table: str
    schema: str
    partitions: tuple[str, ...]
    mapping: str
    storage: tuple[tuple[str, str], ...]
    heap: int
    target: int
    statistics: Columns
    directory: str | None


def layout_of(
    url: str,
    schema: StructType,
    partitions: Sequence[str],
    mapping: DocMapping,
    settings: Settings,
    storage_options: Mapping[str, str] | None,
) -> Layout:
    """What the tasks of a write must know."""
    return Layout(
        url,
        schema.to_json(),
        tuple(partitions),
        mapping.to_json(),
        tuple((storage_options or {}).items()),
        settings.size("indexWriter.heapSize", HEAP),
        settings.size("write.optimizeWrite.targetSplitSize", _TARGET),
        chosen(settings, mapping),
        settings.get("indexWriter.tempDirectoryPath"),
    )


def with_constants(commits: pa.Table, mapping: DocMapping) -> pa.Table:
    """Task commits as adds of the log."""
    n = commits.num_rows
    return (
        commits.cast(COMMIT)
        .append_column("dataChange", pa.repeat(pa.scalar(True), n))
        .append_column("hasFooterOffsets", pa.repeat(pa.scalar(True), n))
        .append_column("docMappingJson", pa.repeat(pa.scalar(mapping.to_json()), n))
    )


def writing(layout: Layout) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for ``mapInArrow``."""
    payload = pickle.dumps(layout)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from TaskWriter(pickle.loads(payload)).run(batches)

    return task(run)


class TaskWriter:
    """The splits of one task: one at a time, a new one for new partition values or when one is full."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._schema = parse_schema(layout.schema)
        self._mapping = decode_mapping(layout.mapping)
        self._store = open_store(layout.table, dict(layout.storage))
        self._builder: SplitBuilder | None = None
        self._values: dict[str, str | None] = {}
        self._bytes = 0
        self._done: list[dict[str, Any]] = []

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                for values, part in self._parts(batch):
                    self._add(values, part)
                yield from self._commits()
            self._finish()
            yield from self._commits()
        finally:
            if self._builder is not None:
                self._builder.__exit__(None, None, None)

    def _commits(self) -> Iterator[pa.RecordBatch]:
        if self._done:
            yield pa.RecordBatch.from_pylist(self._done, COMMIT)
            self._done = []

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[dict[str, str | None], pa.RecordBatch]]:
        """Runs of rows with the same partition values."""
        names = self._layout.partitions
        if not names or not batch.num_rows:
            if batch.num_rows:
                yield {}, batch
            return
        changed = np.zeros(batch.num_rows, bool)
        changed[0] = True
        for name in names:
            codes = (
                batch.column(name).dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
            )
            changed[1:] |= codes[1:] != codes[:-1]
        starts = np.flatnonzero(changed)
        ends = np.append(starts[1:], batch.num_rows)
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            yield self._texts(batch, start), batch.slice(start, end - start)

    def _texts(self, batch: pa.RecordBatch, row: int) -> dict[str, str | None]:
        out = {}
        for name in self._layout.partitions:
            field = self._schema.field(name)
            assert field is not None
            out[name] = serialize(batch.column(name)[row].as_py(), field.type)
        return out

    def _add(self, values: dict[str, str | None], part: pa.RecordBatch) -> None:
        if self._builder is not None and (values != self._values or self._bytes >= self._layout.target):
            self._finish()
        if self._builder is None:
            self._values, self._bytes = values, 0
            self._builder = SplitBuilder(
                self._mapping,
                heap=self._layout.heap,
                statistics=self._layout.statistics,
                directory=self._layout.directory,
            )
        self._builder.add(part)
        self._bytes += part.nbytes

    def _finish(self) -> None:
        builder, self._builder = self._builder, None
        if builder is None:
            return
        with builder:
            packed = builder.finish()
            name = split_name(list(self._values.items()))
            put(self._store, name, packed.path)
            commit = task_commit(name, packed, builder.statistics.to_json(), self._values)
        self._done.append({**commit, "uncompressedSizeBytes": self._bytes})


def split_name(values: Sequence[tuple[str, str | None]]) -> str:
    """A name that no other split of the table has, in the directory of its partition."""
    name = f"part-{uuid.uuid4()}{SUFFIX}"
    return f"{partition_directory(values)}/{name}" if values else name


def put(store: Any, name: str, path: Any) -> None:
    """Put a packed split where it belongs, mapped and not read into memory."""
    with pa.memory_map(str(path)) as source:
        store.put_if_absent(name, source.read_buffer())


def task_commit(
    name: str, packed: Any, stats: str | None, values: Mapping[str, str | None]
) -> dict[str, Any]:
    """What the log must know of a split."""
    return {
        "path": encode_path(name),
        "partitionValues": list(values.items()),
        "size": packed.size,
        "modificationTime": time.time_ns() // 1_000_000,
        "stats": stats,
        "numRecords": packed.footer.rows,
        "footerStartOffset": packed.footer_start,
        "footerEndOffset": packed.size,
        "uncompressedSizeBytes": None,
    }
