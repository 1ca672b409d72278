"""Writing a DataFrame into an index table: each task builds its splits, one commit makes them visible.

The schema, the options and the mode are checked before any job runs. A task builds a split on its local
disk, puts it at its final place under a name nobody else has, and returns what the log must know of it.
What a failed or repeated task has put there is referred to by nothing, and ``purge`` takes it away.
"""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import CommitRefusedError, OptionError, SchemaInvalidError, TableExistsError
from tidegate.files.partitions import partition_directory, serialize
from tidegate.files.paths import encode_path
from tidegate.index.build import HEAP, SplitBuilder
from tidegate.index.fields import DocMapping, decode_mapping, mapping_for
from tidegate.index.log import IndexLog
from tidegate.index.settings import Settings
from tidegate.index.snapshot import IndexSnapshot
from tidegate.index.split import SUFFIX
from tidegate.index.travel import task, translating
from tidegate.schema.types import StructType, parse_schema
from tidegate.storage.opening import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The mapping of the table's columns, in its metadata: what later writes go by.
MAPPING = "indextables.docMapping"
COMPANION = "indextables.companion.enabled"
MODES = ("append", "overwrite", "error", "errorifexists", "ignore")
_TARGET = 1 << 30
_REFUSED = ("replaceWhere", "partitionOverwriteMode", "mergeSchema", "overwriteSchema")

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


def session_conf(spark: Any) -> dict[str, str]:
    """The confs of a session that concern index tables."""
    found = spark.conf.getAll
    found = found() if callable(found) else found
    return {k: v for k, v in dict(found).items() if k.lower().startswith("spark.indextables.")}


def write(
    frame: DataFrame,
    url: str | PathLike[str],
    *,
    mode: str = "error",
    partition_by: Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> IndexSnapshot | None:
    """Write ``frame`` to the index table at ``url``; None if the mode says that nothing is to be done."""
    from tidegate.spark.write.fit import check_columns, schema_of

    mode = mode.lower()
    if mode not in MODES:
        raise OptionError(f"There is no save mode {mode!r}.", hint=f"The modes are {', '.join(MODES)}.")
    for name in options or {}:
        if name.lower() in {r.lower() for r in _REFUSED}:
            raise OptionError(
                f"Index tables do not know the option {name}.", hint="Overwrite the whole table."
            )
    settings = Settings(options, session_conf(frame.sparkSession))
    check_options(settings)
    log = IndexLog.at(url, storage_options, settings.as_options())
    current = log.snapshot() if log.exists() else None
    if current is not None and mode in ("error", "errorifexists"):
        raise TableExistsError(
            "There is a table already.", table=log.url, hint="Use the mode append or overwrite."
        )
    if current is not None and mode == "ignore":
        return None
    if current is None:
        data = schema_of(frame)
        partitions = tuple(f.name if (f := data.field(p)) is not None else p for p in partition_by or ())
        check_columns(data, partitions)
        mapping = mapping_for(data, partitions, settings)
        adds = write_splits(frame, log.url, data, partitions, mapping, settings, storage_options)
        return created(log, data, partitions, mapping, adds)
    log.check_writable(current)
    fitted, mapping = _fitted(frame, current, partition_by, settings)
    adds = write_splits(
        fitted, log.url, current.schema, current.partition_columns, mapping, settings, storage_options
    )
    return log.overwrite(adds) if mode == "overwrite" else log.append(adds)


def check_options(settings: Settings) -> None:
    """Refuse an indexing option that nobody reads."""
    known = {
        "typemap", "tokenizer", "indexrecordoption", "tokenlength", "fastfields", "nonfastfields",
        "storeonlyfields", "indexonlyfields", "text", "json",
    }  # fmt: skip
    for rest, _ in settings.below("indexing"):
        if rest.split(".")[0] not in known:
            raise OptionError(
                f"There is no option spark.indextables.indexing.{rest}.",
                hint=f"After indexing. comes one of {', '.join(sorted(known))}.",
            )


def created(
    log: IndexLog, schema: StructType, partitions: Sequence[str], mapping: DocMapping, adds: pa.Table
) -> IndexSnapshot:
    made = log.create(schema.to_json(), partitions, {MAPPING: mapping.to_json()}, adds=adds)
    if (
        adds.num_rows
        and not pc.is_in(adds.column("path").slice(0, 1), made.files(columns=["path"]).column(0))[0].as_py()
    ):
        # Somebody else was faster in creating the table: ours is an append to theirs, if it fits.
        if (
            made.schema != schema
            or made.partition_columns != tuple(partitions)
            or mapping_of(made) != mapping
        ):
            raise TableExistsError(
                "Another writer created this table a moment ago, with other columns.", table=log.url
            )
        return log.append(adds)
    return made


def mapping_of(snapshot: IndexSnapshot) -> DocMapping:
    """How the table's columns are indexed."""
    text = snapshot.configuration.get(MAPPING)
    if text is None:
        found = snapshot.files(columns=["docMappingJson"]).column(0).drop_null()
        text = found[0].as_py() if len(found) else None
    if text is None:
        return mapping_for(snapshot.schema, snapshot.partition_columns, Settings())
    return decode_mapping(text)


def refuse_companion(snapshot: IndexSnapshot) -> None:
    """A companion's rows are its Delta table's: nothing else may write to it."""
    if snapshot.configuration.get(COMPANION) == "true":
        raise CommitRefusedError(
            "This is the companion index of a Delta table, which is not written to directly.",
            table=snapshot.url,
            hint="Write to the Delta table, then call refresh().",
        )


def _fitted(
    frame: DataFrame, current: IndexSnapshot, partition_by: Sequence[str] | None, settings: Settings
) -> tuple[DataFrame, DocMapping]:
    from tidegate.spark.write.fit import fitted

    refuse_companion(current)
    if partition_by is not None and [c.lower() for c in partition_by] != [
        c.lower() for c in current.partition_columns
    ]:
        raise SchemaInvalidError(
            f"The table is partitioned by {list(current.partition_columns)}, not by {list(partition_by)}.",
            table=current.url,
            hint="Leave partitionBy out.",
        )
    mapping = mapping_of(current)
    if any(True for _ in settings.below("indexing")):
        asked = mapping_for(current.schema, current.partition_columns, settings)
        if asked != mapping:
            differ = [a.column for a, b in zip(asked.fields, mapping.fields, strict=True) if a != b]
            raise OptionError(
                f"The options index {', '.join(differ)} otherwise than the table does.",
                hint="The table remembers its indexing options: leave them out, or create another table.",
            )
    return fitted(frame, current.metadata), mapping


# ---------------------------------------------------------------------------- splits


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
    statistics: int
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
        int(settings.get("dataSkippingNumIndexedCols") or 32),
        settings.get("indexWriter.tempDirectoryPath"),
    )


def write_splits(
    frame: DataFrame,
    url: str,
    schema: StructType,
    partitions: Sequence[str],
    mapping: DocMapping,
    settings: Settings,
    storage_options: Mapping[str, str] | None,
) -> pa.Table:
    """Build and put the splits of a DataFrame that has the table's columns; returns their adds."""
    layout = layout_of(url, schema, partitions, mapping, settings, storage_options)
    columns = [_quoted(c) for c in partitions]
    if settings.flag("write.optimizeWrite.enabled", False):
        from pyspark.sql import functions as F

        frame = frame.hint("rebalance", *(F.col(c) for c in columns))
    if columns:
        frame = frame.sortWithinPartitions(*columns)
    with translating():
        commits = frame.mapInArrow(writing(layout), _commit_type()).toArrow()
    return with_constants(commits, mapping)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _commit_type() -> Any:
    return (
        "path string, partitionValues map<string,string>, size long, modificationTime long, stats string, "
        "numRecords long, footerStartOffset long, footerEndOffset long, uncompressedSizeBytes long"
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
