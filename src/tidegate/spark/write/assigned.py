"""Plain values of another type as the columns of a table by name take them: text for a number or a date.

INSERT, ``insertInto``, ``writeTo`` and appending with ``saveAsTable`` cast whatever Spark's cast knows, as
the session's store assignment policy says; what does not fit fails the write. A write to a path takes
less: there ``fit`` refuses text for a number before any job runs, and so is a cast refused here that would
cut something off without a word.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidegate.errors import SchemaInvalidError
from tidegate.schema.implicit import losing
from tidegate.schema.paths import join_path
from tidegate.schema.types import (
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructType,
    duplicate_columns,
)
from tidegate.spark.write.casts import casts_of
from tidegate.spark.write.fit import as_stored, check_assignable, quoted, schema_of


def assigned(frame: DataFrame, schema: StructType) -> DataFrame:
    """The columns of ``frame``, cast where ``schema`` has another plain type that a write would refuse."""
    given = schema_of(frame)
    kinds = [
        f.type if (to := schema.field(f.name)) is None else _assigned_type(f.type, to.type, f.name)
        for f in given.fields
    ]
    if all(f.type == kind for f, kind in zip(given.fields, kinds, strict=True)) or duplicate_columns(given):
        return frame
    casts = casts_of(frame.sparkSession)
    return frame.select(
        *(
            quoted(f.name)
            if f.type == kind
            else as_stored(quoted(f.name), f.type, kind, (f.name,), casts).alias(f.name)
            for f, kind in zip(given.fields, kinds, strict=True)
        )
    )


def refuse_losses(data: StructType, schema: StructType) -> None:
    """Refuse data whose fractions, digits or times of day the table's columns have no room for."""
    found = losing(schema, data)
    if found is not None:
        path, want, given = found
        raise SchemaInvalidError(
            f"The column {join_path(path)} is {want} in the table, which would cut something off from the "
            f"{given} of the data.",
            hint="Cast it in the query first, if that is meant; writes by name do so by themselves.",
            errorClass="DELTA_FAILED_TO_MERGE_FIELDS",
        )


def _assigned_type(given: DataType, want: DataType, name: str) -> DataType:
    """The type with the plain ones that a write would not take as the table has them, at every level."""
    if isinstance(given, StructType) and isinstance(want, StructType):
        return StructType(
            tuple(
                f
                if (to := want.field(f.name)) is None
                else f.with_type(_assigned_type(f.type, to.type, name))
                for f in given.fields
            )
        )
    if isinstance(given, ArrayType) and isinstance(want, ArrayType):
        return ArrayType(_assigned_type(given.element, want.element, name), given.contains_null)
    if isinstance(given, MapType) and isinstance(want, MapType):
        return MapType(
            _assigned_type(given.key, want.key, name),
            _assigned_type(given.value, want.value, name),
            given.value_contains_null,
        )
    return want if _is_plain(given) and _is_plain(want) and _is_refused(given, want, name) else given


def _is_plain(kind: DataType) -> bool:
    return isinstance(kind, PrimitiveType | DecimalType) and kind != VOID


def _is_refused(given: DataType, want: DataType, name: str) -> bool:
    """Whether the write would not take a column of this type; what it takes it may store wider."""
    try:
        check_assignable(given, want, name)
    except SchemaInvalidError:
        return True
    return False
