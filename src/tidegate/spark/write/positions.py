"""DataFrames that go into a table by position: renamed to its columns, fields of structs included."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate.schema.positions import fits_by_name, placed
from tidegate.schema.types import StructType
from tidegate.spark.scan.projection import spark_type
from tidegate.spark.write.fit import schema_of


def by_position(frame: DataFrame, schema: StructType, names: Sequence[str]) -> DataFrame:
    """The columns of ``frame`` under ``names``, which are columns of ``schema``; more than these stay.

    Spark casts structs by position, which is just what renames them.
    """
    given = schema_of(frame)
    targets = [schema.field(name) for name in names]
    table = StructType(tuple(f for f in targets if f is not None))
    if [f.name for f in given.fields][: len(names)] == list(names) and fits_by_name(given, table):
        return frame
    marks = [f"__tidegate_{i}" for i in range(len(given.fields))]
    columns = []
    for i, (mark, f) in enumerate(zip(marks, given.fields, strict=True)):
        to = targets[i] if i < len(targets) else None
        kind = f.type if to is None else placed(f.type, to.type, to.name)
        column = F.col(mark) if kind == f.type else F.col(mark).cast(spark_type(kind))
        columns.append(column.alias(f.name if to is None else to.name))
    return frame.toDF(*marks).select(*columns)


def by_name(frame: DataFrame, schema: StructType) -> DataFrame:
    """The columns of ``frame`` as they are called; fields of structs by position where names do not fit."""
    given = schema_of(frame)
    known = [f for f in given.fields if schema.field(f.name) is not None]
    table = [f for f in schema.fields if given.field(f.name) is not None]
    if fits_by_name(StructType(tuple(known)), StructType(tuple(table))):
        return frame
    columns = []
    for f in given.fields:
        to = schema.field(f.name)
        kind = f.type if to is None else placed(f.type, to.type, to.name)
        column = F.col("`" + f.name.replace("`", "``") + "`")
        columns.append(column if kind == f.type else column.cast(spark_type(kind)).alias(f.name))
    return frame.select(*columns)
