"""The Python data source named ``delta``: what that API can serve, for names in plain SQL.

``CREATE TABLE t USING delta LOCATION '...'`` and ``SELECT ... FROM t`` find it where nothing of ours stands
before Spark's analyser, as on a Connect server. It reads the newest version, correct and slower than a
scan: the API prunes neither columns nor files. It runs in Python workers of the server, where Tidegate
must be installed. It does not write: to a table by name it is given no path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType as SparkStruct

from tidegate.errors import OptionError
from tidegate.files import partitions
from tidegate.files.deletion_vectors import DeletionVector
from tidegate.log.actions import Add
from tidegate.log.columns import from_batch
from tidegate.log.snapshot import Snapshot
from tidegate.opening import open as open_table
from tidegate.schema.arrow import to_arrow_schema
from tidegate.schema.mapping import Mode, physical_name
from tidegate.schema.types import VOID, ArrayType, DataType, MapType, StructType, parse_schema
from tidegate.spark.scan import vectors
from tidegate.spark.scan.native import FILE_COLUMNS
from tidegate.spark.scan.portable import readable_types, task_names, task_plan
from tidegate.spark.scan.projection import Layout
from tidegate.spark.scan.readers import reading

NAME = "delta"


class DataFile(InputPartition):
    """One file: its name, its partition values as the log has them, and its deletion vector's descriptor."""

    def __init__(self, name: str, values: dict[str, str | None], vector: bytes | None) -> None:
        super().__init__(None)
        self.file, self.values, self.vector = name, values, vector


class DeltaSource(DataSource):
    """The format, as far as Spark's Python API goes."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> SparkStruct:
        return SparkStruct.fromJson(json.loads(_snapshot(self.options).schema.to_json()))

    def reader(self, schema: SparkStruct) -> DataSourceReader:
        return DeltaReader(dict(self.options), parse_schema(schema.json()))

    def writer(self, schema: SparkStruct, overwrite: bool) -> Any:
        raise OptionError(
            "Spark hands the Python data source of a table by name no path, so it cannot write to it.",
            hint='Write with df.write.format("delta").save(path), or with DeltaTable.',
        )


class DeltaReader(DataSourceReader):
    """A scan, pinned to the version that the table has when the query is planned."""

    def __init__(self, options: dict[str, str], declared: StructType) -> None:
        self._options = options
        self._declared = declared
        self._snapshot: Snapshot | None = None

    def __getstate__(self) -> dict[str, Any]:
        pinned = self._options
        if self._snapshot is not None:
            pinned = {**pinned, "versionAsOf": str(self._snapshot.version)}
        return {"_options": pinned, "_declared": self._declared, "_snapshot": None}

    def _opened(self) -> Snapshot:
        if self._snapshot is None:
            self._snapshot = _snapshot(self._options)
        return self._snapshot

    def partitions(self) -> Sequence[InputPartition]:
        snapshot = self._opened()
        files = snapshot.files(columns=FILE_COLUMNS)
        names = task_names(snapshot.url, files)
        adds = files.append_column("dataChange", pa.array([False] * files.num_rows, pa.bool_()))
        out = []
        for name, add in zip(names, from_batch(adds, Add), strict=True):
            vector = None if add.deletion_vector is None else msgspec.json.encode(add.deletion_vector)
            out.append(DataFile(name, dict(add.partition_values or {}), vector))
        return out

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, DataFile)
        snapshot = self._opened()
        layout = Layout.of(snapshot.metadata)
        plan, _ = task_plan(snapshot, layout)
        # A catalog remembers the columns that the table had when it was entered there.
        schema = to_arrow_schema(readable_types(self._declared))
        deleted = _deleted(snapshot, partition.vector)
        listed = pa.record_batch({"key": pa.array([0], pa.int32()), "path": pa.array([partition.file])})
        for batch in reading(plan)(iter([listed])):
            if deleted is not None:
                rows = batch.column(batch.num_columns - 1).to_numpy()
                batch = batch.filter(pa.array(~np.isin(rows, deleted)))
            yield _table_columns(batch, snapshot.schema, layout, schema, partition.values)


def _snapshot(options: Any) -> Snapshot:
    given = {k.lower(): v for k, v in dict(options).items()}
    path = given.get("path") or given.get("location")
    if not path:
        raise OptionError(
            f"There is no path to read among the options {sorted(given)}.", hint="Give the table a LOCATION."
        )
    version = given.get("versionasof")
    return open_table(path, version=None if version is None else int(version))


def _deleted(snapshot: Snapshot, vector: bytes | None) -> np.ndarray[Any, Any] | None:
    """The rows that a vector hides, read and checked where the file is read."""
    if vector is None:
        return None
    found = vectors.read_bitmap(snapshot.log, msgspec.json.decode(vector, type=DeletionVector))
    return np.fromiter(found, dtype=np.int64, count=len(found))


def _table_columns(
    batch: pa.RecordBatch, table: StructType, layout: Layout, schema: pa.Schema, values: dict[str, str | None]
) -> pa.RecordBatch:
    """A batch of physical columns as the table's own, partition values filled in."""
    n = batch.num_rows
    constants = {f.name: f.type for f in layout.partitions.fields}
    arrays = []
    for wanted in schema:
        field = table.field(wanted.name)
        name = None if field is None else physical_name(field, layout.mode)
        if field is None or name is None:
            arrays.append(pa.nulls(n, wanted.type))
        elif name in constants:
            text = pa.array([values.get(name) or None], pa.string())
            parsed = partitions.parse(text, constants[name]).values
            arrays.append(pa.repeat(parsed[0], n).cast(wanted.type))
        elif name not in batch.schema.names:
            arrays.append(pa.nulls(n, wanted.type))
        else:
            arrays.append(_named(batch.column(name), field.type, wanted.type, layout.mode))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _named(column: pa.Array, kind: DataType, wanted: pa.DataType, mode: Mode) -> pa.Array:
    """A column with logical names inside."""
    mask = column.is_null() if column.null_count else None
    if isinstance(kind, StructType):
        children = []
        fields = [wanted.field(i) for i in range(wanted.num_fields)]
        for inner in fields:
            f = kind.field(inner.name)
            at = -1 if f is None else column.type.get_field_index(physical_name(f, mode))
            if f is None or f.type == VOID or at < 0:
                children.append(pa.nulls(len(column), inner.type))
            else:
                children.append(_named(column.field(at), f.type, inner.type, mode))
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if isinstance(kind, ArrayType):
        values = _named(column.values, kind.element, wanted.value_type, mode)
        return pa.ListArray.from_arrays(column.offsets, values, type=wanted, mask=mask)
    if isinstance(kind, MapType):
        keys = _named(column.keys, kind.key, wanted.key_type, mode)
        items = _named(column.items, kind.value, wanted.item_type, mode)
        return pa.MapArray.from_arrays(column.offsets, keys, items, type=wanted, mask=mask)
    return column if column.type == wanted else column.cast(wanted)
