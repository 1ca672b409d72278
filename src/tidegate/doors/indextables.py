"""``format("indextables")`` in ``spark.read`` and ``df.write``.

Writing goes through our own tasks. Reading is PySpark's data source interface: the source is registered
with the session when it is first read from, and the session's switch for pushing filters to Python sources
is turned on with it. A DataFrame is pinned to the version that the table has when ``load`` is called.
"""

from __future__ import annotations

import weakref
from typing import Any

from tidegate.doors import batch
from tidegate.doors.hooks import original
from tidegate.errors import OptionError, TidegateError

FORMAT = "indextables"
_known: weakref.WeakSet[Any] = weakref.WeakSet()


def install() -> None:
    """Answer for the format."""
    batch.serve(FORMAT, _read, _write)


def _read(spark: Any, where: str, options: dict[str, str]) -> Any:
    _needs_tantivy()
    from tidegate.index.tables import Searchable
    from tidegate.index.write import session_conf

    given = {**session_conf(spark), **options, "path": where}
    folded = {k.lower(): v for k, v in given.items()}
    version, timestamp = folded.get("versionasof"), folded.get("timestampasof")
    if version is not None and not version.isdecimal():
        raise OptionError(f"versionAsOf is {version!r}; it is a whole number.")
    table = Searchable.open(
        where, version=None if version is None else int(version), timestamp=timestamp, options=given
    )
    if folded.get("query") is not None:
        table.search(folded["query"])
    pinned = {k: v for k, v in given.items() if k.lower() not in ("versionasof", "timestampasof")}
    _register(spark)
    reader = spark.read
    cls = type(reader)
    original(cls, "format")(reader, FORMAT)
    for key, value in {**pinned, "versionAsOf": str(table.read_version)}.items():
        if key != "path":
            original(cls, "option")(reader, key, value)
    return original(cls, "load")(reader, where)


def _register(spark: Any) -> None:
    from tidegate.index.datasource import PUSHDOWN, IndexTablesSource

    if spark in _known:
        return
    spark.dataSource.register(IndexTablesSource)
    spark.conf.set(PUSHDOWN, "true")
    _known.add(spark)


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
