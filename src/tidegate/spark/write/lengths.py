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
from tidegate.schema.types import StructField
from tidegate.spark.write.constraints import LENGTH, Constraint, violation


def bounded(column: Column, field: StructField) -> Column:
    """A column as it is stored: every char and varchar in it cut, filled up or refused."""
    text = field.metadata.get(KEY)
    return column if not isinstance(text, str) else _bounded(column, DataType.fromDDL(text), field.name)


def _bounded(column: Column, kind: DataType, path: str) -> Column:
    if isinstance(kind, CharType | VarcharType):
        return _cut(column, kind, path)
    if not _has_lengths(kind):
        return column
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.transform(column, lambda x: _bounded(x, element, f"{path}.element"))
    if isinstance(kind, MapType):
        key, value = kind.keyType, kind.valueType
        keyed = F.transform_keys(column, lambda k, _: _bounded(k, key, f"{path}.key"))
        return F.transform_values(keyed, lambda _, v: _bounded(v, value, f"{path}.value"))
    assert isinstance(kind, StructType)
    parts = [
        _bounded(column.getField(f.name), f.dataType, f"{path}.{f.name}").alias(f.name) for f in kind.fields
    ]
    return F.when(column.isNotNull(), F.struct(*parts))


def _has_lengths(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_lengths(kind.elementType)
    if isinstance(kind, MapType):
        return _has_lengths(kind.keyType) or _has_lengths(kind.valueType)
    if isinstance(kind, StructType):
        return any(_has_lengths(f.dataType) for f in kind.fields)
    return isinstance(kind, CharType | VarcharType)


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
