"""Fit a DataFrame to a table's schema: by name, without regard to case, cast as Spark stores.

The result has exactly the table's columns, in order, nullable at every level, under physical names.
Missing columns become null; columns the table lacks are an error, unless the schema may evolve. All
of it is checked before any job runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.errors import SchemaInvalidError
from tidegate.files.paths import HIVE_DEFAULT_PARTITION
from tidegate.metadata import Metadata
from tidegate.schema.columns import (
    IdentityColumn,
    default_columns,
    generated_columns,
    users_metadata,
)
from tidegate.schema.lengths import as_strings
from tidegate.schema.mapping import ID, Mode, mapping_mode, physical_name
from tidegate.schema.names import check_partitions_once
from tidegate.schema.paths import Path, join_path
from tidegate.schema.stored import check_types, types_in
from tidegate.schema.types import (
    BINARY,
    BYTE,
    INTEGER,
    SHORT,
    STRING,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    duplicate_columns,
    nullable,
    nullable_type,
    parse_schema,
)
from tidegate.schema.widening import with_type_change
from tidegate.spark.expressions import quote
from tidegate.spark.scan.projection import FIELD_ID, spark_type
from tidegate.spark.write import identity
from tidegate.spark.write.casts import Casts, cast_to, casts_of
from tidegate.spark.write.lengths import bounded

_NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double"})
_SMALL = (BYTE, SHORT, INTEGER)
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})


def schema_of(frame: DataFrame) -> StructType:
    """The schema of a DataFrame as ours, nullable at every level.

    What the metadata of its columns says of another table (ids, generation, constraints) stays there.
    """
    return as_strings(nullable(parse_schema(frame.schema.json()))).transform(lambda _, f: _own(f))


def _own(field: StructField) -> StructField:
    kept = users_metadata(field)
    return field if kept == field.metadata else StructField(field.name, field.type, field.nullable, kept)


def check_columns(schema: StructType, partition_columns: tuple[str, ...]) -> None:
    """Refuse columns twice, partition columns that do not exist, and nothing but partition columns."""
    twice = duplicate_columns(schema)
    if twice:
        raise SchemaInvalidError(
            f"The data has columns twice: {', '.join(twice)}.",
            errorClass="DELTA_DUPLICATE_COLUMNS_FOUND.DATA",
        )
    if not schema.fields:
        raise SchemaInvalidError("The data has no columns to make a table of.", errorClass="DELTA_EMPTY_DATA")
    check_partitions_once(partition_columns)
    names = {f.name.lower() for f in schema.fields}
    missing = [c for c in partition_columns if c.lower() not in names]
    if missing:
        raise SchemaInvalidError(
            f"The data has no partition column {', '.join(missing)}; it has {', '.join(schema.names)}.",
            errorClass="DELTA_PARTITION_COLUMN_NOT_FOUND",
        )
    if len(partition_columns) >= len(schema.fields):
        raise SchemaInvalidError(
            "All columns are partition columns; at least one must hold data.",
            errorClass="DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION",
        )


def check_storable(schema: StructType, partition_columns: Iterable[str] = ()) -> None:
    """Refuse types that no data file of a Delta table holds."""
    check_types(schema)
    for path, f in schema.walk():
        name = join_path(path)
        if isinstance(f.type, ArrayType | MapType) and _has_void(f.type):
            raise SchemaInvalidError(
                f"The column {name} is {f.type}: null alone is not a type within arrays and maps.",
                hint="Cast the elements to a type.",
                errorClass="DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE",
            )
        if isinstance(f.type, StructType) and all(inner.type == VOID for inner in f.type.fields):
            raise SchemaInvalidError(
                f"The column {name} is {f.type}: a struct must hold something else than null.",
                errorClass="DELTA_CANNOT_WRITE_EMPTY_SCHEMA."
                + ("STRUCT_ALL_VOID_FIELDS" if f.type.fields else "STRUCT_NO_FIELDS"),
            )
    partitions = {c.lower() for c in partition_columns}
    data = [f for f in schema.fields if f.name.lower() not in partitions]
    if data and all(f.type == VOID for f in data):
        raise SchemaInvalidError(
            "All columns of the data files are null alone; at least one must have a type.",
            errorClass="DELTA_CANNOT_WRITE_EMPTY_SCHEMA.TABLE_ALL_VOID_COLUMNS",
        )


def _has_void(kind: DataType) -> bool:
    """Whether a null without a type is anywhere in a type."""
    if isinstance(kind, StructType):
        return any(_has_void(f.type) for f in kind.fields)
    return kind == VOID or any(_has_void(inner) for inner in types_in(kind)[1:])


def merged(
    table: StructType,
    data: StructType,
    *,
    path: str = "",
    widens: Callable[[DataType, DataType], bool] | None = None,
    small_grow: bool = False,
) -> StructType:
    """The table's schema with the columns of ``data`` that it lacks added at the end, at every level.

    A column takes the type of the data where ``widens`` says so of the two types; with ``small_grow``
    also where both are whole numbers of at most 32 bits.
    """
    fields = list(table.fields)
    at = {f.name.lower(): i for i, f in enumerate(fields)}
    for f in data.fields:
        i = at.get(f.name.lower())
        if i is None:
            fields.append(f)
        else:
            kind = _merged_type(fields[i].type, f.type, f"{path}{f.name}", widens, small_grow)
            fields[i] = fields[i].with_type(kind) if widens is None else with_type_change(fields[i], kind)
    return StructType(tuple(fields))


def _merged_type(
    table: DataType,
    data: DataType,
    path: str,
    widens: Callable[[DataType, DataType], bool] | None,
    small_grow: bool,
) -> DataType:
    if isinstance(table, StructType) and isinstance(data, StructType):
        return merged(table, data, path=f"{path}.", widens=widens, small_grow=small_grow)
    if isinstance(table, ArrayType) and isinstance(data, ArrayType):
        element = _merged_type(table.element, data.element, f"{path}.element", widens, small_grow)
        return ArrayType(element, table.contains_null)
    if isinstance(table, MapType) and isinstance(data, MapType):
        return MapType(
            _merged_type(table.key, data.key, f"{path}.key", widens, small_grow),
            _merged_type(table.value, data.value, f"{path}.value", widens, small_grow),
            table.value_contains_null,
        )
    if table == VOID or (widens is not None and widens(table, data)):
        return data
    # Files keep all of these as numbers of 32 bits: the wider type reads what is there.
    return data if small_grow and table in _SMALL and data in _SMALL[_SMALL.index(table) :] else table


def fitted(
    frame: DataFrame,
    metadata: Metadata,
    keep: Sequence[str] = (),
    numbered: Sequence[IdentityColumn] | None = None,
) -> DataFrame:
    """The DataFrame with the table's columns, cast, in order; defaults and generated values filled in.

    Columns named in ``keep`` are none of the table's and stay beside them as they are; ``numbered`` are
    the identity columns whose missing values are given here, by default those the data does not bring.
    """
    whole = schema_of(frame)
    have = StructType(tuple(f for f in whole.fields if f.name not in keep))
    extra = [f.name for f in have.fields if metadata.schema.field(f.name) is None]
    if extra:
        raise SchemaInvalidError(
            f"The data has columns that the table lacks: {', '.join(extra)}. The table has "
            f"{', '.join(metadata.schema.names)}.",
            hint="Write with mergeSchema = true to add them; an overwrite replaces the columns with "
            "overwriteSchema = true.",
            errorClass="DELTA_METADATA_MISMATCH",
        )
    given = identity.to_generate(metadata, have.names) if numbered is None else numbered
    identities = {i.name.lower(): i for i in given}
    if identities:
        frame, partitions = identity.with_partitions(frame)
    by_name = {f.name.lower(): f for f in have.fields}
    defaults = {d.name.lower(): d.current for d in default_columns(metadata.schema)}
    generated = {g.name.lower(): g.expression for g in generated_columns(metadata.schema)}
    partition_columns = {c.lower() for c in metadata.partition_columns}
    columns: list[Column] = []
    later: list[tuple[str, str, DataType]] = []
    casts: Casts | None = None
    for f in metadata.schema.fields:
        key = f.name.lower()
        found = by_name.get(key)
        want = nullable_type(f.type)
        if f.type != VOID and _has_void(f.type):
            # Files have no column for what has no type, and a cast could not leave it out later.
            want = nullable_type(_physical_type(f.type, "none"))
        if found is not None:
            check_assignable(found.type, f.type, f.name)
            column = quoted(found.name)
            if found.type != want:
                casts = casts or casts_of(frame.sparkSession)
                column = as_stored(column, found.type, f.type, (f.name,), casts)
            if key in identities:
                column = F.coalesce(column, identity.numbers(identities[key], partitions))
        elif key in identities:
            column = identity.numbers(identities[key], partitions)
        elif key in defaults:
            column = F.expr(defaults[key]).cast(spark_type(want))
        else:
            column = F.lit(None).cast(spark_type(want))
            if key in generated:
                later.append((f.name, generated[key], want))
        column = bounded(column, f)
        if key in partition_columns and want in (STRING, BINARY):
            # What stands for null in directories and in the log is null before it is checked.
            text = column.cast("string")
            column = F.when((F.length(text) > 0) & (text != HIVE_DEFAULT_PARTITION), column)
        columns.append(column.alias(f.name))
    out = frame.select(*columns, *(quoted(name) for name in keep))
    for name, expression, want in later:
        out = out.withColumn(name, F.expr(expression).cast(spark_type(want)))
    return out


def stored(frame: DataFrame, field: StructField) -> Column:
    """A column of ``frame`` with the values that the table's column of that name will hold."""
    found = schema_of(frame).field(field.name)
    assert found is not None
    check_assignable(found.type, field.type, field.name)
    column = quoted(found.name)
    if found.type != nullable_type(field.type):
        column = as_stored(column, found.type, field.type, (field.name,), casts_of(frame.sparkSession))
    return bounded(column, field)


def physical(frame: DataFrame, metadata: Metadata, keep: Sequence[str] = ()) -> DataFrame:
    """A fitted DataFrame under the names and ids that data files carry, void columns left out."""
    mode = mapping_mode(metadata)
    columns = []
    for f in metadata.schema.fields:
        if f.type == VOID:
            continue
        column = quoted(f.name)
        target = nullable_type(_physical_type(f.type, mode))
        if target != nullable_type(f.type):
            column = column.cast(spark_type(target))
        tags = {FIELD_ID: f.metadata[ID]} if mode != "none" and ID in f.metadata else {}
        columns.append(column.alias(physical_name(f, mode), metadata=tags))
    return frame.select(*columns, *(quoted(name) for name in keep))


def quoted(name: str) -> Column:
    """A column of a frame by its name, dots and all."""
    return F.col(quote(name))


def _physical_type(kind: DataType, mode: Mode) -> DataType:
    if isinstance(kind, StructType):
        return StructType(
            tuple(
                StructField(
                    physical_name(f, mode),
                    _physical_type(f.type, mode),
                    True,
                    {FIELD_ID: f.metadata[ID]} if mode != "none" and ID in f.metadata else {},
                )
                for f in kind.fields
                if f.type != VOID
            )
        )
    if isinstance(kind, ArrayType):
        return ArrayType(_physical_type(kind.element, mode), True)
    if isinstance(kind, MapType):
        return MapType(_physical_type(kind.key, mode), _physical_type(kind.value, mode), True)
    return kind


def as_stored(column: Column, have: DataType, want: DataType, path: Path, casts: Casts) -> Column:
    """A column as the table stores it; structs by name, field by field."""
    if isinstance(have, StructType) and isinstance(want, StructType):
        by_name = {f.name.lower(): f for f in have.fields}
        parts = []
        for f in want.fields:
            if f.type == VOID:
                continue
            found = by_name.get(f.name.lower())
            if found is None:
                inner = as_stored(F.lit(None), VOID, f.type, (*path, f.name), casts)
            else:
                inner = as_stored(column.getField(found.name), found.type, f.type, (*path, f.name), casts)
            parts.append(inner.alias(f.name))
        whole = F.when(column.isNotNull(), F.struct(*parts))
        return whole.cast(spark_type(nullable_type(_physical_type(want, "none"))))
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        if have.element == want.element:
            return column.cast(spark_type(nullable_type(want)))
        element = (*path, "element")
        return F.transform(column, lambda x: as_stored(x, have.element, want.element, element, casts))
    if isinstance(have, MapType) and isinstance(want, MapType) and have != want:
        key, value = (*path, "key"), (*path, "value")
        keyed = F.transform_keys(column, lambda k, _: as_stored(k, have.key, want.key, key, casts))
        return F.transform_values(keyed, lambda _, v: as_stored(v, have.value, want.value, value, casts))
    target = nullable_type(_physical_type(want, "none"))
    if have in (VOID, want):
        return column.cast(spark_type(target))
    return cast_to(column, have, target, path, casts)


def check_assignable(have: DataType, want: DataType, path: str) -> None:
    """Spark's store assignment: what may be written into a column of another type."""
    if have in (want, VOID):
        return
    if isinstance(have, StructType) and isinstance(want, StructType):
        for f in have.fields:
            inner = want.field(f.name)
            if inner is None:
                raise SchemaInvalidError(
                    f"The data has the field {path}.{f.name}, which the table lacks.",
                    hint="Write with mergeSchema = true to add it.",
                    errorClass="DELTA_METADATA_MISMATCH",
                )
            check_assignable(f.type, inner.type, f"{path}.{f.name}")
        return
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        check_assignable(have.element, want.element, f"{path}.element")
        return
    if isinstance(have, MapType) and isinstance(want, MapType):
        check_assignable(have.key, want.key, f"{path}.key")
        check_assignable(have.value, want.value, f"{path}.value")
        return
    if _is_number(have) and _is_number(want):
        return
    if isinstance(have, PrimitiveType) and isinstance(want, PrimitiveType):
        if have.name in _TIMES and want.name in _TIMES:
            return
        if want.name == "string" and have.name != "binary":
            return
    if isinstance(have, DecimalType) and isinstance(want, PrimitiveType) and want.name == "string":
        return
    if want == VOID:
        raise SchemaInvalidError(
            f"The column {path} has no type in the table yet, only nulls; the data has {have} there.",
            hint="Write with mergeSchema = true to give it that type.",
            errorClass="DELTA_METADATA_MISMATCH",
        )
    raise SchemaInvalidError(
        f"The column {path} is {want} in the table, and {have} cannot be stored there.",
        hint="Cast it in the query first.",
        errorClass="DELTA_FAILED_TO_MERGE_FIELDS",
    )


def _is_number(kind: DataType) -> bool:
    return isinstance(kind, DecimalType) or (isinstance(kind, PrimitiveType) and kind.name in _NUMBERS)
