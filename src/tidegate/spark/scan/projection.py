"""From the columns of data files to the columns of the table: names, order, void, partitions.

Data files carry physical names; the table's user sees logical ones. The relation that Spark scans
has the physical schema without partition columns and without void, and one projection on top
gives every column its logical name, at every level, in the table's order. What a schema says of nulls,
and what users attach to columns (comments, lengths of char and varchar), comes along; what the log keeps
there for writers does not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType as SparkStruct

from tidegate.metadata import Metadata
from tidegate.schema import lengths
from tidegate.schema.columns import users_metadata, users_type
from tidegate.schema.mapping import ID, Mode, mapping_mode, physical_name, to_physical
from tidegate.schema.types import (
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    nullable,
)
from tidegate.schema.widening import TYPE_CHANGES

FIELD_ID = "parquet.field.id"
_METADATA = "_metadata"


def file_metadata(frame: DataFrame, stored: StructType) -> Column:
    """What Spark says of the files of a scan, also where a column in them has that name itself."""
    if any(f.name.lower() == _METADATA for f in stored.fields):
        return frame.metadataColumn(_METADATA)
    return F.col(_METADATA)


@dataclass(frozen=True)
class Layout:
    """A table's schema as its files have it, and how to get from there to what users see."""

    metadata: Metadata
    mode: Mode
    data: StructType
    partitions: StructType
    # Whether Spark is told that any value may be null, whatever the table says.
    loose: bool = False

    @classmethod
    def of(cls, metadata: Metadata, *, loose: bool = False) -> Layout:
        mode = mapping_mode(metadata)
        names = {c.lower() for c in metadata.partition_columns}
        schema = nullable(metadata.schema) if loose else metadata.schema
        data = [f for f in schema.fields if f.name.lower() not in names]
        return cls(
            metadata,
            mode,
            StructType(tuple(p for f in data if (p := _physical(f, mode)) is not None)),
            StructType(tuple(_bare(f, mode) for f in metadata.partition_schema.fields)),
            loose,
        )

    def physical(self, field: StructField) -> str:
        """The name that a top-level column has in files."""
        return physical_name(field, self.mode)

    def with_type_changes(self, stored: StructType) -> StructType:
        """A schema of files that says which types its columns had: so the bounds of old files are read."""
        if not any(TYPE_CHANGES in f.metadata for _, f in self.metadata.schema.walk()):
            return stored
        walked = to_physical(self.metadata.schema, self.mode).walk()
        changes = {path: f.metadata[TYPE_CHANGES] for path, f in walked if TYPE_CHANGES in f.metadata}
        return stored.transform(
            lambda path, f: f.with_metadata({TYPE_CHANGES: changes[path]}) if path in changes else f
        )

    def columns(self) -> list[Column]:
        """The table's columns over the relation's, in order."""
        out = []
        stored = {f.name: f.type for f in (*self.data.fields, *self.partitions.fields)}
        schema = nullable(self.metadata.schema) if self.loose else self.metadata.schema
        for f in schema.fields:
            physical = physical_name(f, self.mode)
            column = F.col(_quoted(physical)) if f.type != VOID else F.lit(None).cast("void")
            logical = _logical(column, f.type, self.mode)
            if isinstance(f.type, DecimalType) and stored.get(physical) not in (f.type, None):
                logical = logical.cast(spark_type(f.type))
            out.append(_named(logical, f, self.mode))
        return out


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _named(column: Column, f: StructField, mode: Mode) -> Column:
    """A column under its own name, with what users see of its metadata."""
    shown = users_metadata(f)
    # What is read by field ids carries these: told nothing else, Spark would show them.
    return column.alias(f.name, metadata=shown) if shown or mode == "id" else column.alias(f.name)


def _bare(f: StructField, mode: Mode) -> StructField:
    return StructField(physical_name(f, mode), f.type, f.nullable, users_metadata(f))


def _physical(f: StructField, mode: Mode) -> StructField | None:
    """A column as files have it; None for one that is void and so in no file."""
    inner = _physical_type(f.type, mode)
    if inner is None:
        return None
    metadata = users_metadata(f)
    if lengths.KEY in metadata and _has_void(f.type):
        # Spark goes through this type and the one of the files side by side.
        metadata[lengths.KEY] = lengths.spelled(_physical_type(lengths.described(f), "none") or inner)
    if mode == "id" and ID in f.metadata:
        metadata[FIELD_ID] = f.metadata[ID]
    return StructField(physical_name(f, mode), inner, f.nullable, metadata)


def _physical_type(kind: DataType, mode: Mode) -> DataType | None:
    if kind == VOID:
        return None
    if isinstance(kind, StructType):
        fields = tuple(p for f in kind.fields if (p := _physical(f, mode)) is not None)
        return StructType(fields) if fields else None
    if isinstance(kind, ArrayType):
        element = _physical_type(kind.element, mode)
        return None if element is None else ArrayType(element, kind.contains_null)
    if isinstance(kind, MapType):
        key, value = _physical_type(kind.key, mode), _physical_type(kind.value, mode)
        return None if key is None or value is None else MapType(key, value, kind.value_contains_null)
    return kind


def _has_void(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_void(f.type) for f in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_void(kind.element)
    if isinstance(kind, MapType):
        return _has_void(kind.key) or _has_void(kind.value)
    return kind == VOID


def _is_nested(kind: DataType) -> bool:
    return isinstance(kind, StructType | ArrayType | MapType)


def _logical(column: Column, kind: DataType, mode: Mode) -> Column:
    """A physical column with logical names inside; a cast where that is enough."""
    if not _is_nested(kind) or (mode == "none" and not _has_void(kind)):
        return column
    if not _has_void(kind):
        # Casting a struct goes by position, so it renames and costs nothing.
        return column.cast(spark_type(users_type(kind)))
    if isinstance(kind, StructType):
        parts = [
            _named(
                F.lit(None).cast("void")
                if f.type == VOID
                else _logical(column.getField(physical_name(f, mode)), f.type, mode),
                f,
                mode,
            )
            for f in kind.fields
        ]
        return F.when(column.isNull(), F.lit(None)).otherwise(F.struct(*parts))
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda x: _logical(x, kind.element, mode))
    return column


def spark_type(kind: DataType) -> Any:
    """Our type as PySpark's."""
    wrapped = StructType((StructField("t", kind, True, {}),))
    return SparkStruct.fromJson(json.loads(wrapped.to_json()))["t"].dataType
