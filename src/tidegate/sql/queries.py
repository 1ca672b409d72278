"""A query, wherever one may stand: index tables and searches are taken out of it, the rest goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from tidegate.errors import OptionError
from tidegate.spark.catalog_references import serves_references
from tidegate.spark.jvm import is_connect
from tidegate.sql.context import Context
from tidegate.sql.dialect import at_offset
from tidegate.sql.names import keeps_view
from tidegate.sql.nodes import TableRef
from tidegate.sql.positions import Rewritten
from tidegate.sql.references import Changes, Found, is_marked, references, replaced
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
    if "view" in lower and not is_connect(context.spark) and keeps_view(text):
        return context.rewritten(_kept(context, text), arguments)
    return context.query(text, arguments)


def _kept(context: Context, text: str) -> Rewritten:
    """The text of a view that the catalog is to keep: the user's own, with marks in Spark's words.

    Spark's analyser asks us for paths and versions whenever it reads that text. It knows no change feed.
    """
    ours = [f for f in references(text) if isinstance(f.what, Changes) or context.is_ours(f.what)]
    marks = [replace(f, alias=None) for f in ours if is_marked(text, f)]
    for found in ours:
        if isinstance(found.what, Changes):
            error = OptionError(
                "A view that is kept names tables, paths and versions: the change feed is none of these.",
                hint="Write CREATE TEMPORARY VIEW.",
                errorClass="DELTA_OPERATION_NOT_ALLOWED",
            )
            raise at_offset(error, text, found.start)
        if not serves_references(context.spark):
            error = OptionError(
                "On this Spark a view that is kept names its tables: a path or a version has no name.",
                hint="Make the table known with CREATE TABLE ... USING delta LOCATION and take its name, or "
                "write CREATE TEMPORARY VIEW.",
                errorClass="DELTA_OPERATION_NOT_ALLOWED",
            )
            raise at_offset(error, text, found.start)
    return replaced(text, marks, _spelt)


def _spelt(found: Found) -> str:
    what = found.what
    assert isinstance(what, TableRef)
    if what.version is not None:
        return f"{what.name} VERSION AS OF {what.version}"
    return f"{what.name} TIMESTAMP AS OF {what.timestamp}"
