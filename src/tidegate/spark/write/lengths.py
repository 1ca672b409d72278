"""char(n) and varchar(n): strings in the log, with the length in the column's metadata.

As Spark stores them: spaces beyond the length are cut off, a char is filled up with spaces, and a value
that is longer all the same fails the write. The metadata of a field holds its whole type as DDL, so
lengths inside arrays, maps and structs are kept too.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, CharType, DataType, MapType, StructType, VarcharType

from tidegate.schema.lengths import KEY
from tidegate.schema.types import ArrayType as OurArray
from tidegate.schema.types import DataType as OurType
from tidegate.schema.types import MapType as OurMap
from tidegate.schema.types import StructField
from tidegate.schema.types import StructType as OurStruct
from tidegate.spark.write.constraints import LENGTH, Constraint, violation


def described(field: StructField) -> DataType | None:
    """The type of a column as users described it, where lengths are part of it."""
    text = field.metadata.get(KEY)
    return DataType.fromDDL(text) if isinstance(text, str) else None


def bounded(column: Column, field: StructField) -> Column:
    """A column as it is stored: every char and varchar in it cut, filled up or refused."""
    return _bounded(column, field.type, described(field), field.name)


def _bounded(column: Column, stored: OurType, said: DataType | None, path: str) -> Column:
    """``said`` may be older than ``stored``: fields that it lacks say for themselves what they are."""
    if isinstance(said, CharType | VarcharType):
        return _cut(column, said, path)
    if isinstance(stored, OurStruct):
        inside = {f.name.lower(): f.dataType for f in said.fields} if isinstance(said, StructType) else {}
        kinds = [inside.get(f.name.lower()) or described(f) for f in stored.fields]
        if not any(_has_lengths(f.type, k) for f, k in zip(stored.fields, kinds, strict=True)):
            return column
        parts = [
            _bounded(column.getField(f.name), f.type, k, f"{path}.{f.name}").alias(f.name)
            for f, k in zip(stored.fields, kinds, strict=True)
        ]
        return F.when(column.isNotNull(), F.struct(*parts))
    if not _has_lengths(stored, said):
        return column
    if isinstance(stored, OurArray):
        element = said.elementType if isinstance(said, ArrayType) else None
        return F.transform(column, lambda x: _bounded(x, stored.element, element, f"{path}.element"))
    assert isinstance(stored, OurMap)
    key, value = (said.keyType, said.valueType) if isinstance(said, MapType) else (None, None)
    keyed = F.transform_keys(column, lambda k, _: _bounded(k, stored.key, key, f"{path}.key"))
    return F.transform_values(keyed, lambda _, v: _bounded(v, stored.value, value, f"{path}.value"))


def _has_lengths(stored: OurType, said: DataType | None) -> bool:
    if isinstance(stored, OurArray):
        return _has_lengths(stored.element, said.elementType if isinstance(said, ArrayType) else None)
    if isinstance(stored, OurMap):
        key, value = (said.keyType, said.valueType) if isinstance(said, MapType) else (None, None)
        return _has_lengths(stored.key, key) or _has_lengths(stored.value, value)
    if isinstance(stored, OurStruct):
        inside = {f.name.lower(): f.dataType for f in said.fields} if isinstance(said, StructType) else {}
        return any(_has_lengths(f.type, inside.get(f.name.lower()) or described(f)) for f in stored.fields)
    return isinstance(said, CharType | VarcharType)


def _cut(column: Column, kind: CharType | VarcharType, path: str) -> Column:
    size = kind.length
    short = F.rpad(column, size, " ") if isinstance(kind, CharType) else column
    fits = F.length(F.rtrim(column)) <= size
    rule = Constraint(f"{LENGTH}{path}", kind.simpleString())
    return (
        F.when(column.isNull() | (F.length(column) <= size), short)
        .when(fits, F.substring(column, 1, size))
        .otherwise(violation(rule, column))
    )
