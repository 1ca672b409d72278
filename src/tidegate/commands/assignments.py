"""Assignments of UPDATE and MERGE: which column or field gets which value, fitted to the table's types.

A name may lead into structs (``a.b.c``); what is not named keeps its value. Values are cast as Spark
stores them, structs by name, field by field, and a struct that is null stays null. Names that are missing,
given twice or lead into an array, and values that hold an aggregate or more than one row, are refused first.
The session's store assignment policy says what becomes of a value whose type is not the column's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.commands.subqueries import as_columns
from tidegate.errors import PredicateError, SchemaInvalidError
from tidegate.schema.paths import Path, join_path, split_path
from tidegate.schema.types import VOID, ArrayType, DataType, MapType, StructField, StructType
from tidegate.spark.expressions import (
    CORRELATED,
    GENERATOR,
    PREDICATE,
    PROBE,
    holds_generator,
    is_changing,
    one_value,
    shown,
    strange_values,
)
from tidegate.spark.scan.projection import spark_type
from tidegate.spark.write.casts import Casts, cast_to
from tidegate.spark.write.fit import schema_of

Value = str | Column
_STRANGE = {
    CORRELATED: "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.UNSUPPORTED_CORRELATED_SCALAR_SUBQUERY",
    PREDICATE: "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.UNSUPPORTED_IN_EXISTS_SUBQUERY",
}
_CHANGING = "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED"


@dataclass(frozen=True)
class Assignment:
    """One column or field (in the table's case), the value it gets, and that value's type.

    With ``missing`` the value's structs may lack fields, which become null, or with ``keeps`` stay
    what they were. ``casts`` says how the value gets the column's type.
    """

    path: Path
    column: Column
    type: DataType
    missing: bool = False
    keeps: bool = False
    casts: Casts = "spark"


def names_exactly(spark: SparkSession) -> bool:
    """Whether the session tells names apart by their case."""
    return (spark.conf.get("spark.sql.caseSensitive", "false") or "").lower() == "true"


def target_path(name: str, schema: StructType, alias: str | None, exact: bool) -> Path | None:
    """The column that ``name`` means, in the schema's case, without the table's alias; None if none.

    With ``exact`` the name is to be written as in the schema.
    """
    path = split_path(name)
    if alias is not None and len(path) > 1 and _same_name(path[0], alias, exact):
        found = schema.resolve(path[1:])
        if found is not None and not (exact and found[0] != path[1:]):
            return found[0]
    found = schema.resolve(path)
    return None if found is None or (exact and found[0] != path) else found[0]


def _same_name(a: str, b: str, exact: bool) -> bool:
    return a == b if exact else a.casefold() == b.casefold()


def no_target(name: str, schema: StructType, what: str, alias: str | None = None) -> SchemaInvalidError:
    """The error for a column that is set and is not there."""
    return SchemaInvalidError(
        f"{what} sets the column {name}, which the table lacks; it has {', '.join(schema.names)}.",
        errorClass=_unresolved(name, schema, what, alias),
    )


def _unresolved(name: str, schema: StructType, what: str, alias: str | None) -> str:
    """What Delta calls a column that is set and is not there: each statement is resolved by another hand."""
    path = split_path(name)
    if alias is not None and len(path) > 1 and path[0].casefold() == alias.casefold():
        path = path if schema.field(path[0]) is not None else path[1:]
    first = schema.field(path[0])
    if len(path) > 1 and first is not None:
        return _within(first.type, path[1:])
    return "UNRESOLVED_COLUMN.WITH_SUGGESTION" if what == "UPDATE" else "DELTA_MERGE_UNRESOLVED_EXPRESSION"


def _within(kind: DataType, path: Path) -> str:
    """What Delta calls a field that is set and is not there, in a column that is."""
    for part in path:
        if isinstance(kind, ArrayType | MapType):
            return "DELTA_UNSUPPORTED_NESTED_FIELD_IN_UPDATE"
        field = kind.field(part) if isinstance(kind, StructType) else None
        if field is None:
            break
        kind = field.type
    return "FIELD_NOT_FOUND"


def set_twice(what: str) -> str:
    """What Delta calls a column that is set twice."""
    return "DELTA_DUPLICATE_COLUMNS_ON_INSERT" if what.endswith("INSERT") else "DELTA_CONFLICT_SET_COLUMN"


def check_paths(paths: Iterable[Path], schema: StructType, what: str) -> None:
    """Refuse columns that are set twice, whole or in part, and fields inside arrays and maps."""
    seen: dict[Path, Path] = {}
    for path in paths:
        key = tuple(p.casefold() for p in path)
        for other, name in seen.items():
            if key[: len(other)] == other or other[: len(key)] == key:
                raise SchemaInvalidError(
                    f"{what} sets {join_path(path)} and {join_path(name)}, which is the same column twice.",
                    errorClass=set_twice(what),
                )
        seen[key] = path
        here: DataType = schema
        for part in path:
            if not isinstance(here, StructType):
                raise SchemaInvalidError(
                    f"{what} sets {join_path(path)}, but only fields of structs can be set by name.",
                    hint="Set the whole column to a new value.",
                    errorClass="DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT",
                )
            field = here.field(part)
            if field is None:
                break
            here = field.type


def typed(frame: DataFrame, values: Sequence[Value], what: str) -> list[tuple[Column, DataType]]:
    """Values over the columns of ``frame`` with their types; aggregates and the like are refused.

    A subquery may stand in for one value that is the same for all rows.
    """
    if not values:
        return []
    names = [f"__tidegate_value_{i}" for i in range(len(values))]
    read = as_columns(frame.sparkSession, values)
    columns = [one_value(c).alias(n) for c, n in zip(read, names, strict=True)]
    try:
        # A row's own column beside them: an aggregate cannot stand there.
        probe = frame.withColumn(PROBE, F.lit(1)).select(PROBE, *columns)
        schema = schema_of(probe)
    except AnalysisException as e:
        if (e.getCondition() or "").startswith("MISSING_GROUP_BY"):
            raise _refused(what, values, "an aggregate", "DELTA_AGGREGATION_NOT_SUPPORTED") from e
        if holds_generator(e):
            raise _refused(what, values, GENERATOR, "DELTA_UNSUPPORTED_EXPRESSION") from e
        raise
    strange = strange_values(probe, [shown(c) for c in read], scalars=True)
    if strange is not None:
        raise _refused(what, values, strange, _STRANGE.get(strange, "DELTA_UNSUPPORTED_EXPRESSION"))
    types = [f.type for f in schema.fields[1:]]
    for i, (column, kind) in enumerate(zip(read, types, strict=True)):
        # It is taken apart to be stored field by field, and so asked for more than once.
        if isinstance(kind, StructType) and is_changing(probe, i + 1, column):
            raise _refused(what, values, "a struct that is otherwise each time", _CHANGING)
    return list(zip(read, types, strict=True))


def _refused(what: str, values: Sequence[Value], kind: str, error_class: str) -> PredicateError:
    return PredicateError(
        f"A value in {what} holds {kind}, which depends on more than one row: "
        f"{', '.join(shown(v) for v in values)}.",
        hint="Compute it first and use MERGE.",
        errorClass=error_class,
    )


def new_values(
    schema: StructType, have: StructType, assignments: Sequence[Assignment], old: Callable[[str], Column]
) -> dict[str, Column]:
    """Each column of ``schema`` after the assignments; ``old`` gives a column of the table ``have``."""
    out = {}
    for f in schema.fields:
        before = have.field(f.name)
        mine = [(a.path[1:], a) for a in assignments if a.path[0].casefold() == f.name.casefold()]
        column = None if before is None else old(before.name)
        kind = VOID if before is None else before.type
        out[f.name] = _value(f, kind, column, mine, (f.name,))
    return out


def check_values(
    frame: DataFrame,
    schema: StructType,
    have: StructType,
    assignments: Sequence[Assignment],
    old: Callable[[str], Column],
) -> None:
    """Refuse values that cannot be stored in their columns, by Spark's analysis over ``frame`` alone."""
    values = new_values(schema, have, assignments, old)
    schema_of(frame.select(*(column.alias(name) for name, column in values.items())))


def _value(
    field: StructField,
    have: DataType,
    old: Column | None,
    assigned: Sequence[tuple[Path, Assignment]],
    path: Path,
) -> Column:
    whole = [a for rest, a in assigned if not rest]
    if whole:
        a = whole[0]
        was = old if a.keeps else None
        return stored_as(a.column, a.type, field.type, path, a.missing, was, have, a.casts)
    if not assigned:
        if old is None:
            return _null(field.type)
        return stored_as(old, have, field.type, path, missing=True)
    assert isinstance(field.type, StructType)
    fields = []
    for f in field.type.fields:
        before = have.field(f.name) if isinstance(have, StructType) else None
        column = None if old is None or before is None else old.getField(before.name)
        mine = [(rest[1:], a) for rest, a in assigned if rest[0].casefold() == f.name.casefold()]
        kind = VOID if before is None else before.type
        fields.append(_value(f, kind, column, mine, (*path, f.name)).alias(f.name))
    return F.struct(*fields)


def stored_as(
    column: Column,
    have: DataType,
    want: DataType,
    path: Path,
    missing: bool = False,
    old: Column | None = None,
    old_type: DataType = VOID,
    casts: Casts = "spark",
) -> Column:
    """A value as the table stores it. With ``missing`` a struct may lack fields: they become what they
    were in ``old``, or null."""
    if have == VOID:
        return _null(want)
    if same(have, want):
        return column
    if isinstance(have, StructType) and isinstance(want, StructType):
        return _struct_as(column, have, want, path, missing, old, old_type, casts)
    inner = partial(stored_as, path=path, missing=missing, casts=casts)
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        return F.transform(column, lambda x: inner(x, have.element, want.element))
    if isinstance(have, MapType) and isinstance(want, MapType):
        keyed = F.transform_keys(column, lambda k, _: inner(k, have.key, want.key))
        return F.transform_values(keyed, lambda _, v: inner(v, have.value, want.value))
    return cast_to(column, have, _loose(want), path, casts)


def _struct_as(
    column: Column,
    have: StructType,
    want: StructType,
    path: Path,
    missing: bool,
    old: Column | None,
    old_type: DataType,
    casts: Casts,
) -> Column:
    extra = [f.name for f in have.fields if want.field(f.name) is None]
    lacking = [f.name for f in want.fields if have.field(f.name) is None]
    if extra or (lacking and not missing):
        raise SchemaInvalidError(
            f"{join_path(path)} is {want} in the table, the value is {have}: their fields differ.",
            hint="Give all fields by name, or let the schema evolve.",
            errorClass="DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION",
        )
    fields = []
    for f in want.fields:
        found = have.field(f.name)
        before = old_type.field(f.name) if isinstance(old_type, StructType) else None
        was = None if old is None or before is None else old.getField(before.name)
        kind = VOID if before is None else before.type
        inner = (*path, f.name)
        if found is not None:
            given = column.getField(found.name)
            value = stored_as(given, found.type, f.type, inner, missing, was, kind, casts)
        elif was is not None:
            value = stored_as(was, kind, f.type, inner, missing=True)
        else:
            value = _null(f.type)
        fields.append(value.alias(f.name))
    is_null = column.isNull()
    if old is not None and _keeps(have, want, old_type):
        is_null = is_null & old.isNull()
    return F.when(~is_null, F.struct(*fields)).otherwise(_null(want))


def _keeps(have: DataType, want: DataType, old: DataType) -> bool:
    """Whether a field of the old value outlives a new one that lacks it, in this struct or in one within."""
    if not (isinstance(have, StructType) and isinstance(want, StructType) and isinstance(old, StructType)):
        return False
    for f in want.fields:
        given, before = have.field(f.name), old.field(f.name)
        if before is not None and (given is None or _keeps(given.type, f.type, before.type)):
            return True
    return False


def _null(kind: DataType) -> Column:
    return F.lit(None).cast(spark_type(_loose(kind)))


def same(a: DataType, b: DataType) -> bool:
    """Whether two types differ in nothing but nullability and what fields say of themselves."""
    return _loose(a) == _loose(b)


def _loose(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return StructType(tuple(StructField(f.name, _loose(f.type), True, {}) for f in kind.fields))
    if isinstance(kind, ArrayType):
        return ArrayType(_loose(kind.element), True)
    if isinstance(kind, MapType):
        return MapType(_loose(kind.key), _loose(kind.value), True)
    return kind


def assignments_of(
    frame: DataFrame,
    schema: StructType,
    given: Mapping[str, Value],
    alias: str | None,
    what: str,
    casts: Casts,
) -> list[Assignment]:
    """The assignments that a user gave by name, their values over the columns of ``frame``."""
    paths, exact = [], names_exactly(frame.sparkSession)
    for name in given:
        path = target_path(name, schema, alias, exact)
        if path is None:
            raise no_target(name, schema, what, alias)
        paths.append(path)
    check_paths(paths, schema, what)
    values = typed(frame, list(given.values()), what)
    return [
        Assignment(path, column, kind, casts=casts)
        for path, (column, kind) in zip(paths, values, strict=True)
    ]
