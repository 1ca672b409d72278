"""``format("indextables")`` in ``spark.read`` and ``df.write``.

Writing goes through our own tasks. Reading is PySpark's data source interface: the source is registered
with the session when it is first read from. Filters reach it whatever the session's switch for that says,
which stays as it is; on Spark Connect the switch decides. A DataFrame is pinned to the version that the
table has when ``load`` is called.
"""

from __future__ import annotations

import logging
import weakref
from typing import Any

from pyspark.sql.datasource import DataSourceReader

from tidegate.commands.catalog import entry_of
from tidegate.doors import batch
from tidegate.doors.hooks import original
from tidegate.errors import OptionError, TidegateError
from tidegate.spark.jvm import is_connect, pushing_filters
from tidegate.spark.moments import in_utc

FORMAT = "indextables"
# What each session has been told of object stores: registered anew when that changes.
_known: weakref.WeakKeyDictionary[Any, dict[str, str]] = weakref.WeakKeyDictionary()
_noticed: weakref.WeakSet[Any] = weakref.WeakSet()
_log = logging.getLogger(__name__)


def install() -> None:
    """Answer for the format."""
    batch.serve(FORMAT, read, _write)


def location_of(spark: Any, name: str) -> str | None:
    """Where the index table of that name is; None if the name is another's. Needs nothing of the extra."""
    try:
        entry = entry_of(spark, name)
    except OptionError:
        return None
    return entry.location if entry is not None and entry.is_index else None


def named() -> Any:
    """What is done with index tables by name."""
    _needs_tantivy()
    from tidegate.index import named

    return named


def read(spark: Any, where: str, options: dict[str, str]) -> Any:
    """The table at a path, pinned to a version."""
    _needs_tantivy()
    from tidegate.index.datasource import COLUMNS, PUSHDOWN, asked_columns, asked_flags
    from tidegate.index.tables import Searchable
    from tidegate.index.work import check_columns
    from tidegate.index.write import session_conf

    given = {**session_conf(spark), **options, "path": where}
    folded = {k.lower(): v for k, v in given.items()}
    version, timestamp = folded.get("versionasof"), folded.get("timestampasof")
    if version is not None and not version.isdecimal():
        raise OptionError(f"versionAsOf is {version!r}; it is a whole number.")
    if timestamp is not None:
        timestamp = in_utc(spark, timestamp)
    table = Searchable.open(
        where, version=None if version is None else int(version), timestamp=timestamp, options=given
    )
    columns = asked_columns(given)
    table.search(folded.get("query"), columns)
    for query in asked_flags(given).values():
        table.node(query)
    if columns is not None:
        given = {k: v for k, v in given.items() if k.lower() != COLUMNS}
        given[COLUMNS] = ",".join(check_columns(table.scope, columns))
    pinned = {k: v for k, v in given.items() if k.lower() not in ("versionasof", "timestampasof")}
    _register(spark)
    reader = spark.read
    cls = type(reader)
    original(cls, "format")(reader, FORMAT)
    for key, value in {**pinned, "versionAsOf": str(table.read_version)}.items():
        if key != "path":
            original(cls, "option")(reader, key, value)
    frame = original(cls, "load")(reader, where)
    if is_connect(spark):
        _notice(spark)
        return frame
    return pushing_filters(frame, PUSHDOWN) if hasattr(DataSourceReader, "pushFilters") else frame


def _register(spark: Any) -> None:
    from tidegate.index.datasource import carrying
    from tidegate.spark.places import surroundings

    environment = surroundings()
    if _known.get(spark) != environment:
        spark.dataSource.register(carrying(environment))
        _known[spark] = environment


def _notice(spark: Any) -> None:
    """One word on what a Connect session would have to say for filters to reach the index."""
    from tidegate.index.datasource import PUSHDOWN

    if spark not in _noticed and str(spark.conf.get(PUSHDOWN, "false")).lower() != "true":
        _noticed.add(spark)
        _log.warning(
            "Filters do not reach the index in this session, only searches by option or by IndexTable do: "
            "set %s to true, and they will.",
            PUSHDOWN,
        )


def _write(frame: Any, where: str, mode: str, partitions: list[str] | None, options: dict[str, str]) -> Any:
    _needs_tantivy()
    from tidegate.index.write import write

    given = {k: v for k, v in options.items() if k.lower() != "path"}
    return write(frame, where, mode=mode, partition_by=partitions, options=given)


def _needs_tantivy() -> None:
    try:
        # Imported to see whether it can be; what uses it imports it again.
        import tantivy  # noqa: F401
    except ModuleNotFoundError:
        raise TidegateError(
            "Index tables need the package tantivy, which is not installed.",
            hint="Install it with `pip install tidegate[search]`.",
        ) from None
