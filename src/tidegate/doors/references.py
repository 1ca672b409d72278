"""What a path or a version means in the text of a view, when Spark's analyser comes upon it."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.commands import catalog
from tidegate.doors.hooks import is_enabled, original
from tidegate.spark.catalog_references import Reference
from tidegate.sql.context import Context
from tidegate.sql.nodes import TableRef
from tidegate.sql.references import Found


def planned(spark: SparkSession, said: Reference) -> DataFrame | None:
    """The rows that a reference means; None if it is Spark's, as all are once the session is disabled."""
    if not is_enabled(spark):
        return None

    def spark_sql(*what: Any) -> Any:
        return original(SparkSession, "sql")(spark, *what)

    context = Context(spark, spark_sql)
    ref = _table(said)
    if not context.is_ours(ref):
        return None
    placed = context.placed(Found(ref)).what
    assert isinstance(placed, TableRef)
    ref = placed
    if ref.version is None and ref.timestamp is None:
        return catalog.current(spark, context.log(ref).url)
    return context.scanned(ref)[1]()


def _table(said: Reference) -> TableRef:
    parts = said.parts
    if len(parts) == 1 and said.namespace:
        # In the body of a view a name belongs to the view's database, whatever the current one is.
        parts = (said.namespace[-1], *parts)
    version = said.version
    if version is not None and not version.isdecimal():
        version = "'" + version.replace("\\", "\\\\").replace("'", "\\'") + "'"
    moment = None if said.micros is None else f"timestamp_micros({said.micros})"
    return TableRef(parts, 0, 0, version, moment)
