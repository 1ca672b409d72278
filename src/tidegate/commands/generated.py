"""Generated columns of a new table: their expressions are checked before the table is made.

An expression may speak of plain columns of the table alone, must give the same value every time, and
must have the column's own type. Spark's analysis is asked, on an empty table of that schema.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidegate.errors import SchemaInvalidError
from tidegate.schema.columns import GeneratedColumn, generated_columns
from tidegate.schema.references import functions, references
from tidegate.schema.types import VARIANT, StructType
from tidegate.spark.expressions import CHANGING, GENERATOR, PROBE, holds_generator, one_value, strange_values

# What is the same for one statement only.
_OF_THE_MOMENT = frozenset(
    {
        "current_timestamp",
        "current_date",
        "current_time",
        "now",
        "localtimestamp",
        "current_timezone",
        "current_user",
        "user",
        "session_user",
        "current_database",
        "current_schema",
        "current_catalog",
        "version",
    }
)
_UNSUPPORTED = "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN"
_BUILT_IN = "org.apache.spark.sql.catalyst."


def check_generated(spark: SparkSession, schema: StructType) -> None:
    """Refuse generated columns whose values could not be computed, or not twice the same."""
    found = generated_columns(schema)
    if not found:
        return
    names = {g.name.lower() for g in found}
    empty = spark.createDataFrame([], T.StructType.fromJson(_plain(schema)))
    for column in found:
        others = {path[0] for path in references(column.expression)} & names
        if others:
            raise SchemaInvalidError(
                f"The generated column {column.name} is computed from {', '.join(sorted(others))}, which is "
                "generated itself.",
                errorClass="DELTA_INVALID_GENERATED_COLUMN_REFERENCES",
            )
        _check_functions(spark, column)
        field = schema.field(column.name)
        assert field is not None
        if field.type == VARIANT:
            raise SchemaInvalidError(
                f"The generated column {column.name} is a variant, whose values cannot be compared.",
                errorClass="DELTA_UNSUPPORTED_DATA_TYPE_IN_GENERATED_COLUMN",
            )
        got = _type(empty, column)
        want = T.StructType.fromJson(_plain(StructType((field,))))[0].dataType
        if got.simpleString() != want.simpleString():
            raise SchemaInvalidError(
                f"The generated column {column.name} is {want.simpleString()}, its expression "
                f"{column.expression} is {got.simpleString()}.",
                hint="Cast the expression to the column's type.",
                errorClass="DELTA_GENERATED_COLUMNS_EXPR_TYPE_MISMATCH",
            )


def _check_functions(spark: SparkSession, column: GeneratedColumn) -> None:
    """Refuse functions whose answers change, and those of the session's users."""
    known, others = functions(column.expression)
    called = known | others
    for names, error_class in (
        (CHANGING, "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN"),
        (_OF_THE_MOMENT, _UNSUPPORTED),
    ):
        if called & names:
            raise SchemaInvalidError(
                f"The generated column {column.name} = {column.expression} would not have the same value "
                f"every time: it calls {', '.join(sorted(called & names))}.",
                errorClass=error_class,
            )
    for name in sorted(others):
        if _is_users(spark, name):
            raise SchemaInvalidError(
                f"The generated column {column.name} = {column.expression} calls {name}, which only sessions "
                "know that have registered it.",
                hint="Use functions that every Spark has.",
                errorClass="DELTA_UDF_IN_GENERATED_COLUMN",
            )


def _is_users(spark: SparkSession, name: str) -> bool:
    try:
        return not (spark.catalog.getFunction(name).className or "").startswith(_BUILT_IN)
    except AnalysisException:
        # There is none of that name, which is told when the expression is analysed.
        return False


def _type(empty: DataFrame, column: GeneratedColumn) -> T.DataType:
    """The type of a column's expression, which must be about one row of the table."""
    # A row's own column beside it: an aggregate cannot stand there.
    row = empty.withColumn(PROBE, F.lit(1))
    try:
        probe = row.select(PROBE, one_value(F.expr(column.expression)).alias("v"))
        found = probe.schema["v"].dataType
    except AnalysisException as e:
        condition = e.getCondition() or ""
        if condition.startswith("UNRESOLVED_COLUMN"):
            raise SchemaInvalidError(
                f"The generated column {column.name} = {column.expression} speaks of a column that the table "
                "lacks.",
                hint=f"The columns are {', '.join(empty.columns)}.",
                errorClass="DELTA_INVALID_GENERATED_COLUMN_REFERENCES",
            ) from e
        if condition.startswith("MISSING_GROUP_BY"):
            raise _refused(column, "an aggregate", "DELTA_AGGREGATE_IN_GENERATED_COLUMN") from e
        if holds_generator(e):
            raise _refused(column, GENERATOR, _UNSUPPORTED) from e
        raise
    strange = strange_values(probe, [column.expression])
    if strange is not None:
        raise _refused(column, strange, _UNSUPPORTED)
    return found


def _refused(column: GeneratedColumn, kind: str, error_class: str) -> SchemaInvalidError:
    return SchemaInvalidError(
        f"The generated column {column.name} = {column.expression} holds {kind}, which depends on more than "
        "one row.",
        hint="Compute it from columns of the same row.",
        errorClass=error_class,
    )


def _plain(schema: StructType) -> dict[str, object]:
    value = schema.json_value()
    assert isinstance(value, dict)
    return value
