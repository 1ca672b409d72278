"""Writing a DataFrame into an index table: each task builds its splits, one commit makes them visible.

The schema, the options and the mode are checked before any job runs. A task builds a split on its local
disk, puts it at its final place under a name nobody else has, and returns what the log must know of it.
What a failed or repeated task has put there is referred to by nothing, and ``purge`` takes it away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import CommitRefusedError, OptionError, SchemaInvalidError, TableExistsError
from tidegate.index.after_write import after_write, check_after_write
from tidegate.index.fields import DocMapping, decode_mapping, mapping_for
from tidegate.index.log import IndexLog
from tidegate.index.partition_filters import on_partitions
from tidegate.index.settings import Settings
from tidegate.index.snapshot import IndexSnapshot
from tidegate.index.task_writer import layout_of, with_constants, writing
from tidegate.index.travel import translating
from tidegate.index.write_options import check_options
from tidegate.schema.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The mapping of the table's columns, in its metadata: what later writes go by.
MAPPING = "indextables.docMapping"
COMPANION = "indextables.companion.enabled"
REPLACE = "replaceWhere"
MODES = ("append", "overwrite", "error", "errorifexists", "ignore")


def session_conf(spark: Any) -> dict[str, str]:
    """The confs of a session that concern index tables."""
    found = spark.conf.getAll
    found = found() if callable(found) else found
    return {k: v for k, v in dict(found).items() if k.lower().startswith("spark.indextables.")}


def write(
    frame: DataFrame,
    url: str | PathLike[str],
    *,
    mode: str = "error",
    partition_by: Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> IndexSnapshot | None:
    """Write ``frame`` to the index table at ``url``; None if the mode says that nothing is to be done."""
    from tidegate.spark.write.fit import check_columns, schema_of

    mode = mode.lower()
    if mode not in MODES:
        raise OptionError(f"There is no save mode {mode!r}.", hint=f"The modes are {', '.join(MODES)}.")
    settings = Settings(options, session_conf(frame.sparkSession))
    check_write(settings, options, mode)
    log = IndexLog.at(url, storage_options, settings.as_options())
    current = log.snapshot() if log.exists() else None
    if current is not None and mode in ("error", "errorifexists"):
        raise TableExistsError(
            "There is a table already.", table=log.url, hint="Use the mode append or overwrite."
        )
    if current is not None and mode == "ignore":
        return None
    if current is None:
        data = schema_of(frame)
        partitions = tuple(f.name if (f := data.field(p)) is not None else p for p in partition_by or ())
        check_columns(data, partitions)
        mapping = mapping_for(data, partitions, settings)
        adds = write_splits(frame, log.url, data, partitions, mapping, settings, storage_options)
        done = created(log, data, partitions, mapping, adds)
        after_write(log, done, settings, frame.sparkSession, storage_options)
        return done
    log.check_writable(current)
    check_replaced(settings, current)
    fitted, mapping = _fitted(frame, current, partition_by, settings)
    adds = write_splits(
        fitted, log.url, current.schema, current.partition_columns, mapping, settings, storage_options
    )
    done = committed(log, adds, mode, settings)
    after_write(log, done, settings, frame.sparkSession, storage_options)
    return done


def check_write(settings: Settings, options: Mapping[str, str] | None, mode: str) -> None:
    """Refuse options that make no sense, before anything is done."""
    check_options(settings, options)
    check_after_write(settings)
    if settings.get(REPLACE) is not None and mode != "overwrite":
        raise OptionError(f"{REPLACE} says what is overwritten, and the mode is {mode}.")


def check_replaced(settings: Settings, current: IndexSnapshot) -> None:
    """Refuse a ``replaceWhere`` that is about something else than partitions."""
    where = settings.get(REPLACE)
    if where is not None:
        on_partitions(where, current, "What is replaced")


def committed(log: IndexLog, adds: pa.Table, mode: str, settings: Settings) -> IndexSnapshot:
    """The splits of a write as one commit, in the way that the mode and ``replaceWhere`` say."""
    if mode == "overwrite":
        return log.overwrite(adds, where=settings.get(REPLACE))
    return log.append(adds)


def created(
    log: IndexLog, schema: StructType, partitions: Sequence[str], mapping: DocMapping, adds: pa.Table
) -> IndexSnapshot:
    made = log.create(schema.to_json(), partitions, {MAPPING: mapping.to_json()}, adds=adds)
    if (
        adds.num_rows
        and not pc.is_in(adds.column("path").slice(0, 1), made.files(columns=["path"]).column(0))[0].as_py()
    ):
        # Somebody else was faster in creating the table: ours is an append to theirs, if it fits.
        if (
            made.schema != schema
            or made.partition_columns != tuple(partitions)
            or mapping_of(made) != mapping
        ):
            raise TableExistsError(
                "Another writer created this table a moment ago, with other columns.", table=log.url
            )
        return log.append(adds)
    return made


def mapping_of(snapshot: IndexSnapshot) -> DocMapping:
    """How the table's columns are indexed."""
    text = snapshot.configuration.get(MAPPING)
    if text is None:
        found = snapshot.files(columns=["docMappingJson"]).column(0).drop_null()
        text = found[0].as_py() if len(found) else None
    if text is None:
        return mapping_for(snapshot.schema, snapshot.partition_columns, Settings())
    return decode_mapping(text)


def refuse_companion(snapshot: IndexSnapshot) -> None:
    """A companion's rows are its Delta table's: nothing else may write to it."""
    if snapshot.configuration.get(COMPANION) == "true":
        raise CommitRefusedError(
            "This is the companion index of a Delta table, which is not written to directly.",
            table=snapshot.url,
            hint="Write to the Delta table, then call refresh().",
        )


def _fitted(
    frame: DataFrame, current: IndexSnapshot, partition_by: Sequence[str] | None, settings: Settings
) -> tuple[DataFrame, DocMapping]:
    from tidegate.spark.write.fit import fitted

    refuse_companion(current)
    if partition_by is not None and [c.lower() for c in partition_by] != [
        c.lower() for c in current.partition_columns
    ]:
        raise SchemaInvalidError(
            f"The table is partitioned by {list(current.partition_columns)}, not by {list(partition_by)}.",
            table=current.url,
            hint="Leave partitionBy out.",
        )
    mapping = mapping_of(current)
    if any(True for _ in settings.below("indexing")):
        asked = mapping_for(current.schema, current.partition_columns, settings)
        if asked != mapping:
            differ = [a.column for a, b in zip(asked.fields, mapping.fields, strict=True) if a != b]
            raise OptionError(
                f"The options index {', '.join(differ)} otherwise than the table does.",
                hint="The table remembers its indexing options: leave them out, or create another table.",
            )
    return fitted(frame, current.metadata), mapping


# ---------------------------------------------------------------------------- splits


def write_splits(
    frame: DataFrame,
    url: str,
    schema: StructType,
    partitions: Sequence[str],
    mapping: DocMapping,
    settings: Settings,
    storage_options: Mapping[str, str] | None,
) -> pa.Table:
    """Build and put the splits of a DataFrame that has the table's columns; returns their adds."""
    layout = layout_of(url, schema, partitions, mapping, settings, storage_options)
    columns = [_quoted(c) for c in partitions]
    if settings.flag("write.optimizeWrite.enabled", False):
        from pyspark.sql import functions as F

        frame = frame.hint("rebalance", *(F.col(c) for c in columns))
    if columns:
        frame = frame.sortWithinPartitions(*columns)
    with translating():
        commits = frame.mapInArrow(writing(layout), _commit_type()).toArrow()
    return with_constants(commits, mapping)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _commit_type() -> Any:
    return (
        "path string, partitionValues map<string,string>, size long, modificationTime long, stats string, "
        "numRecords long, footerStartOffset long, footerEndOffset long, uncompressedSizeBytes long"
    )
