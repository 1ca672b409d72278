"""A query, wherever one may stand: index tables and searches are taken out of it, the rest goes on."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from tidegate.errors import OptionError
from tidegate.spark.jvm import is_connect
from tidegate.sql.context import Context
from tidegate.sql.dialect import at_offset
from tidegate.sql.names import makes_view
from tidegate.sql.references import Changes, references
from tidegate.sql.searches import KINDS

_WORDS = ("indextables", "tantivy4spark", *KINDS)


def query(context: Context, text: str, arguments: Any = None) -> DataFrame:
    """Run a query; what does not so much as mention an index table costs nothing more."""
    lower = text.lower()
    if any(word in lower for word in _WORDS):
        # Index tables need what only an extra brings.
        from tidegate.sql import index_query

        found = index_query.query(context, text, arguments)
        if found is not None:
            return found
    if "view" in lower and not is_connect(context.spark):
        _check_view(context, text)
    return context.query(text, arguments)


def _check_view(context: Context, text: str) -> None:
    """Refuse a view to be kept over what the catalog cannot hold: a path, a version, the change feed."""
    if makes_view(text) != "permanent":
        return
    for found in references(text):
        if isinstance(found.what, Changes) or context.is_ours(found.what):
            error = OptionError(
                "A view that is kept names its tables: a path, a version or the change feed has no name.",
                hint="Make the table known with CREATE TABLE ... USING delta LOCATION and take its name, or "
                "write CREATE TEMPORARY VIEW.",
                errorClass="DELTA_OPERATION_NOT_ALLOWED",
            )
            raise at_offset(error, text, found.start)
