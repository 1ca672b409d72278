"""Temporary views on Spark Connect: what they show, as far as the server and this client know it.

The server tells the text of a view that a statement made; the names in it are views of ours or other
temporary views. A view that was made of a DataFrame is known by that frame, if this client made it and the
server finds that the view still means the same. What is neither is not known, and nothing is written
through it.
"""

from __future__ import annotations

import weakref
from collections.abc import Container, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.commands import views
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.schema.paths import split_path
from tidegate.spark.remote_catalog import TemporaryView, is_same_view, temporary_view
from tidegate.spark.scan.origins import Scan, newest_tables, scan_of
from tidegate.spark.view_plans import Behind
from tidegate.sql.chosen import Source, shown_by
from tidegate.sql.chosen_frames import as_shown, shown_by_plan
from tidegate.sql.names import table_names

OWN_VIEWS = "__tidegate_"
# The views that stand in for tables in queries, each with the scan that it is, if it is one.
_kept: weakref.WeakKeyDictionary[SparkSession, dict[str, Scan | None]] = weakref.WeakKeyDictionary()
# By the names of temporary views: the frames that they were made of.
_frames: weakref.WeakKeyDictionary[SparkSession, dict[str, DataFrame]] = weakref.WeakKeyDictionary()


def keep(spark: SparkSession, frames: Mapping[str, DataFrame]) -> None:
    """Make the views that a query reads by name; they stay as long as the session does."""
    known = _kept.setdefault(spark, {})
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
        known[name] = scan_of(vars(frame)["_plan"])


def is_kept(spark: SparkSession, name: str) -> bool:
    """Whether there is a view of ours of that name."""
    return name in _kept.get(spark, ())


def remember(spark: SparkSession, name: str, frame: DataFrame) -> None:
    """From here on the temporary view ``name`` is known to be made of ``frame``."""
    plain = split_path(name)[-1]
    if not plain.startswith(OWN_VIEWS):
        _frames.setdefault(spark, {})[plain.casefold()] = frame


def behind(spark: SparkSession, name: str) -> Behind | None:
    """What the temporary view ``name`` shows; None if no Delta table is in it, or it is not known."""
    return _behind(spark, name, frozenset())


def reads(spark: SparkSession, name: str) -> set[str]:
    """The tables of which the temporary view ``name`` shows rows as they are now; none if it is not known."""
    followed = views.held(spark, name)
    if followed is not None:
        return {followed[0]}
    view = None if is_kept(spark, name) else temporary_view(spark, name)
    if view is None:
        return set()
    if view.query is not None:
        within = (n.ref.parts for n in table_names(view.query))
        return set().union(*(reads(spark, parts[0]) for parts in within if len(parts) == 1))
    frame = _frames.get(spark, {}).get(name.casefold())
    tables = set() if frame is None else newest_tables(frame)
    # The server is asked only where the answer matters.
    return tables if tables and _frame(spark, name) is not None else set()


def _frame(spark: SparkSession, name: str) -> DataFrame | None:
    """The frame that a view was made of; one that the view no longer means is let go."""
    known = _frames.get(spark, {})
    frame = known.get(name.casefold())
    if frame is not None and not is_same_view(spark, name, frame):
        del known[name.casefold()]
        return None
    return frame


def _behind(spark: SparkSession, name: str, within: frozenset[str]) -> Behind | None:
    # A frame may read the view whose name it has taken: that one is gone.
    view = None if name.casefold() in within else temporary_view(spark, name)
    if view is None:
        return None
    within |= {name.casefold()}
    if view.query is not None:
        return _named(shown_by(view.query, _source(spark, (), within)), view)
    frame = _frame(spark, name)
    if frame is None:
        return None
    newest = newest_tables(frame)
    plan: Any = vars(frame)["_plan"]
    return _named(shown_by_plan(plan, newest, _source(spark, newest, within)), view)


def _source(spark: SparkSession, newest: Container[str], within: frozenset[str]) -> Source:
    """What a name in a query stands for; of tables that are not ``newest`` a view of ours shows a version."""

    def source(parts: tuple[str, ...]) -> Behind | None:
        if len(parts) != 1:
            return None
        followed = views.held(spark, parts[0])
        if followed is not None:
            names = load(TableLog.at(followed[0])).schema.names
            return as_shown(Scan(followed[0], tuple(names)), {followed[0]})
        if not is_kept(spark, parts[0]):
            return _behind(spark, parts[0], within)
        scan = _kept[spark][parts[0]]
        return None if scan is None else as_shown(scan, newest)

    return source


def _named(found: Behind | None, view: TemporaryView) -> Behind | None:
    """The columns that the view has, by its own names; those that its query has got since are not shown."""
    if found is None or found.obstacle is not None:
        return found
    columns = []
    for given, name in view.columns:
        same = [column for shown, column in found.columns if shown.casefold() == given.casefold()]
        columns.append((name, same[0] if len(same) == 1 else None))
    return Behind(found.table, tuple(columns))
