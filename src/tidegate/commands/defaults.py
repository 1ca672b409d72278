"""Defaults of columns: what may stand for a value that a row does not give. Checked before they land.

A default is one value that needs no row: no column, no subquery, nothing that looks at more than a row.
It must fit its column without loss; text and numbers that are written out may be of another type.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tidegate.errors import SchemaInvalidError
from tidegate.schema.columns import GENERATION_EXPRESSION, IDENTITY_START, default_columns
from tidegate.schema.sql_trees import tree_of
from tidegate.schema.types import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructType,
    parse_schema,
)
from tidegate.schema.widening import can_widen
from tidegate.spark.expressions import GENERATOR, PROBE, holds_generator, one_value, strange_values
from tidegate.spark.scan.projection import spark_type
from tidegate.spark.write.fit import check_assignable

_INVALID = "INVALID_DEFAULT_VALUE."
_NUMBERS = (BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE)
_TIMES = (DATE, TIMESTAMP, TIMESTAMP_NTZ)


def check_defaults(spark: SparkSession, schema: StructType) -> None:
    """Refuse defaults that are no values of their columns."""
    for default in default_columns(schema):
        field = schema.field(default.name)
        assert field is not None
        if field.metadata.get(GENERATION_EXPRESSION) is not None:
            raise SchemaInvalidError(
                f"The column {field.name} has a default and is generated too.",
                errorClass="GENERATED_COLUMN_WITH_DEFAULT_VALUE",
            )
        if field.metadata.get(IDENTITY_START) is not None:
            raise SchemaInvalidError(
                f"The column {field.name} has a default and numbers the rows too.",
                errorClass="IDENTITY_COLUMN_WITH_DEFAULT_VALUE",
            )
        check_default(spark, field.name, field.type, default.current)


def check_default(spark: SparkSession, name: str, want: DataType, text: str) -> None:
    """Refuse a default that is no value of a column of the type ``want``."""
    if str(spark.conf.get("spark.sql.defaultColumn.enabled", "true")).lower() == "false":
        raise _refused(
            name, text, "is not allowed in this session", "UNSUPPORTED_DEFAULT_VALUE.WITH_SUGGESTION"
        )
    # A column of no row's own beside it: an aggregate cannot stand there.
    nothing = spark.range(1).select(F.lit(1).alias(PROBE))
    try:
        probe = nothing.select(PROBE, one_value(F.expr(text)).alias("v"))
        given = parse_schema(probe.schema.json()).fields[1].type
    except AnalysisException as e:
        condition = e.getCondition() or ""
        if condition.startswith("UNRESOLVED_COLUMN"):
            raise _refused(name, text, "speaks of columns", _INVALID + "NOT_CONSTANT") from e
        if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
            raise _refused(name, text, "holds a subquery", _INVALID + "SUBQUERY_EXPRESSION") from e
        if condition.startswith("MISSING_GROUP_BY"):
            raise _refused(name, text, "holds an aggregate", "UNSUPPORTED_EXPR_FOR_OPERATOR") from e
        if holds_generator(e):
            raise _refused(name, text, f"holds {GENERATOR}", "UNSUPPORTED_EXPR_FOR_OPERATOR") from e
        raise
    strange = strange_values(probe, [text])
    if strange is not None:
        kind = _INVALID + "SUBQUERY_EXPRESSION" if "subquery" in strange else "UNSUPPORTED_EXPR_FOR_OPERATOR"
        raise _refused(name, text, f"holds {strange}", kind)
    is_value = _is_literal(text) and BOOLEAN not in (given, want)
    if not (_fits(given, want) or (is_value and _is_kept(probe, given, want))):
        raise _refused(name, text, f"is {given}, the column {want}", _INVALID + "DATA_TYPE")


def _fits(given: DataType, want: DataType) -> bool:
    """Whether every value of one type is one of the other, as far as plain types go."""
    if given in (want, VOID) or want == STRING or can_widen(given, want):
        return True
    if isinstance(given, StructType | ArrayType | MapType):
        check_assignable(given, want, "the default")
        return True
    if given in _NUMBERS and want in _NUMBERS:
        return _NUMBERS.index(given) <= _NUMBERS.index(want)
    return given in _TIMES and want in _TIMES[1:]


def _is_literal(text: str) -> bool:
    try:
        tree = tree_of(text)
    except (SqlglotError, RecursionError):
        return False
    while isinstance(tree, exp.Neg | exp.Paren):
        tree = tree.this
    return isinstance(tree, exp.Literal | exp.Boolean)


def _is_kept(probe: DataFrame, given: DataType, want: DataType) -> bool:
    """Whether a value that is written out means the same as the column's type."""
    value = F.col("v").cast(spark_type(want))
    same = F.lit(True) if given == STRING else value.cast(spark_type(given)) == F.col("v")
    try:
        found = probe.select(value.alias("v"), same.alias("same")).first()
    except PySparkException:
        return False
    return found is not None and found["v"] is not None and bool(found["same"])


def _refused(name: str, text: str, why: str, error_class: str) -> SchemaInvalidError:
    return SchemaInvalidError(
        f"The default {text} of the column {name} {why}.",
        hint="A default is a value that needs no row, of the column's own type.",
        errorClass=error_class,
    )
