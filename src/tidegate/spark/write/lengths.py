"""char(n) and varchar(n): strings in the log, with the length in the column's metadata.

As Spark stores them: spaces beyond the length are cut off, a char is filled up with spaces, and a value
that is longer all the same fails the write. The metadata of a field holds its whole type as DDL, so
lengths inside arrays, maps and structs are kept too.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidegate.schema.lengths import described, length_of, without_lengths
from tidegate.schema.types import VOID, ArrayType, DataType, MapType, StructField, StructType
from tidegate.spark.write.constraints import LENGTH, Constraint, violation


def bounded(column: Column, field: StructField) -> Column:
    """A column as it is stored: every char and varchar in it cut, filled up or refused."""
    return _bounded(column, described(field), field.name)


def _bounded(column: Column, kind: DataType, path: str) -> Column:
    if without_lengths(kind) == kind:
        return column
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda x: _bounded(x, kind.element, f"{path}.element"))
    if isinstance(kind, MapType):
        keyed = F.transform_keys(column, lambda k, _: _bounded(k, kind.key, f"{path}.key"))
        return F.transform_values(keyed, lambda _, v: _bounded(v, kind.value, f"{path}.value"))
    if isinstance(kind, StructType):
        # What is void has been left out already: files have no column for it.
        parts = [
            _bounded(column.getField(f.name), f.type, f"{path}.{f.name}").alias(f.name)
            for f in kind.fields
            if f.type != VOID
        ]
        return F.when(column.isNotNull(), F.struct(*parts))
    return _cut(column, kind, path)


def _cut(column: Column, kind: DataType, path: str) -> Column:
    found = length_of(kind)
    assert found is not None
    which, size = found
    short = F.rpad(column, size, " ") if which == "char" else column
    fits = F.length(F.rtrim(column)) <= size
    rule = Constraint(f"{LENGTH}{path}", f"{which}({size})")
    return (
        F.when(column.isNull() | (F.length(column) <= size), short)
        .when(fits, F.substring(column, 1, size))
        .otherwise(violation(rule, column))
    )


def filled(column: Column, field: StructField) -> Column:
    """A column that is read: a char is at least as long as its type, whoever wrote it."""
    which, size = length_of(described(field)) or ("", 0)
    if which != "char":
        return column
    return F.when(F.length(column) < size, F.rpad(column, size, " ")).otherwise(column).alias(field.name)
