"""``write_files``: the one way data gets out of Spark into a table.

The transaction is marked as having written before the job starts. What comes back are the adds and the
change files, as Arrow tables ready to be committed; nothing is visible before the commit, and a job that
fails leaves at most orphan files for VACUUM. Two ways lie behind it: native, the default on classic
sessions, and portable, on public API alone; ``way_of`` says which one a write takes.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import properties
from tidegate.errors import FileMissingError, OptionError, OutOfReachError
from tidegate.files.paths import encode_path
from tidegate.log.actions import Add
from tidegate.log.columns import ADD_SCHEMA, CDC_SCHEMA, STRING_MAP, to_batch
from tidegate.metadata import Metadata
from tidegate.schema.mapping import mapping_mode, physical_name
from tidegate.schema.types import TIMESTAMP, DataType
from tidegate.spark import failures
from tidegate.spark.confs import conf
from tidegate.spark.hadoop import hadoop_root, opens, settings
from tidegate.spark.jvm import is_connect
from tidegate.spark.places import place_of
from tidegate.spark.write import identity, layout, native, portable, statistics
from tidegate.spark.write.constraints import Constraint, enforced
from tidegate.spark.write.fit import check_storable, fitted, physical
from tidegate.spark.write.layout import Placed
from tidegate.spark.write.measured import measured
from tidegate.spark.write.optimized import optimized
from tidegate.transaction.transaction import Transaction

_log = logging.getLogger("tidegate.spark.write")
_PASSED_ON = ("maxRecordsPerFile", "compression", "parquet.writer.version")
_MOST_RECORDS = "spark.sql.files.maxRecordsPerFile"

# An option of one write, or with "spark." before it a conf of the session.
PORTABLE = "tidegate.write.portable"


class Written(NamedTuple):
    """The files of one write: data files as add actions, change files as cdc actions."""

    adds: pa.Table
    cdcs: pa.Table


def write_files(
    transaction: Transaction,
    frame: DataFrame,
    options: Mapping[str, str] | None = None,
    *,
    is_optimize: bool = False,
    operation: str = "WRITE",
    constraints: Sequence[Constraint] = (),
    tells_inserts: bool = False,
    numbered: Collection[str] = (),
) -> Written:
    """Write ``frame`` into the table of ``transaction``; the files as actions.

    The frame may carry the special columns of ``layout``: rows with a ``_change_type`` go to change
    files, and row ids under the table's materialised names into data files. ``constraints`` are those of
    this write alone, beside the table's own. With ``tells_inserts`` every row is written to change files
    too, as one that was inserted. The identity columns ``numbered`` have their numbers already.
    """
    metadata = transaction.metadata
    # A table may be made with columns that no file holds; rows it has none.
    check_storable(metadata.schema, metadata.partition_columns)
    given = {k.lower(): v for k, v in (options or {}).items()}
    carried = [c for c in layout.SPECIAL if c in frame.columns and metadata.schema.field(c) is None]
    special = [*carried, layout.CHANGE_TYPE] if tells_inserts else carried
    way = way_of(frame.sparkSession, transaction, given, special)
    provided = frozenset(c.lower() for c in frame.columns)
    spared = F.col(layout.CHANGE_TYPE).isNotNull() if layout.CHANGE_TYPE in carried else None
    ready = identity.named(metadata, numbered)
    missing = () if is_optimize else identity.to_generate(metadata, provided)
    missing = tuple(i for i in missing if i not in ready)
    generated = (*missing, *ready)
    whole = fitted(frame, metadata, carried, missing)
    whole = enforced(whole, metadata, provided, spared, constraints)
    if tells_inserts:
        # Only now, so that a row and its change row have one number in identity columns.
        kinds = F.array(F.lit(None).cast("string"), F.lit("insert"))
        whole = whole.select("*", F.explode(kinds).alias(layout.CHANGE_TYPE))
    data = optimized(physical(whole, metadata, special), metadata, given, is_optimize=is_optimize)
    failures.watch(hadoop_root(transaction.log.url), transaction.log.url)
    passed = {k: given[k.lower()] for k in _PASSED_ON if k.lower() in given}
    passed.setdefault("maxRecordsPerFile", str(frame.sparkSession.conf.get(_MOST_RECORDS, "0")))
    rows = _row_columns(metadata, special)
    told = metadata if generated else _told(frame.sparkSession, transaction)
    if way == "portable":
        place = place_of(transaction.log.store)
        portable.codec_of(metadata, passed)
        transaction.mark_written()
        commits = portable.write(
            data,
            told,
            place,
            operation=operation,
            options=passed,
            row_columns=rows,
            has_changes=layout.CHANGE_TYPE in special,
        )
        _check_reach(transaction, commits)
        result = _actions(transaction, told, commits, data_change=not is_optimize)
        identity.move_marks(transaction, result.adds, generated)
        return result
    passed.setdefault("compression", portable.codec_of(metadata, passed, _session_codec(frame)))
    transaction.mark_written()
    mode = mapping_mode(metadata)
    names = [physical_name(f, mode) for f in metadata.partition_schema.fields]
    data = data.withColumnsRenamed(dict(rows)).drop(*(s for s in special if s not in dict(rows)))
    written = native.write(
        frame.sparkSession,
        data,
        hadoop_root(transaction.log.url),
        names,
        operation=operation,
        prefix=layout.random_prefix(portable.prefix_length(metadata)),
        options=passed,
        hadoop=settings(transaction.log.store),
    )
    adds = adds_of(frame.sparkSession, transaction, told, written, data_change=not is_optimize)
    identity.move_marks(transaction, adds, generated)
    return Written(adds, CDC_SCHEMA.empty_table())


def way_of(
    spark: SparkSession, transaction: Transaction, options: Mapping[str, str], special: list[str]
) -> Literal["native", "portable"]:
    """Which way a write takes; ``options`` in lower case."""
    said = options.get(PORTABLE)
    if said is None:
        said = spark.conf.get(f"spark.{PORTABLE}", "false")
    if said is None or said.lower() not in ("true", "false"):
        raise OptionError(f"{PORTABLE} is {said!r}; it is true or false.")
    wanted = (
        said.lower() == "true"
        or is_connect(spark)
        # Spark's own committer can neither name nor route change files, nor spread files at random.
        or layout.CHANGE_TYPE in special
        or properties.get(transaction.metadata.configuration, properties.RANDOMIZE_FILE_PREFIXES)
        or not opens(spark, transaction.log.url)
    )
    return "portable" if wanted else "native"


def _told(spark: SparkSession, transaction: Transaction) -> Metadata:
    """The metadata by which statistics are collected: of no column, if the session wants none.

    Rows are counted all the same; clustering needs the bounds of its columns whatever a session wants.
    """
    metadata = transaction.metadata
    if conf(spark, "stats.collect", True) or transaction.protocol.supports("clustering"):
        return metadata
    columns = properties.DATA_SKIPPING_STATS_COLUMNS.key
    kept = {k: v for k, v in metadata.configuration.items() if k != columns}
    return metadata.with_configuration({**kept, properties.DATA_SKIPPING_NUM_INDEXED_COLS.key: "0"})


def _check_reach(transaction: Transaction, commits: pa.Table) -> None:
    """Refuse to commit files that were written where this process does not see them."""
    if commits.num_rows == 0:
        return
    name = commits.column("path")[0].as_py()
    try:
        transaction.log.store.head(name)
    except FileMissingError:
        raise OutOfReachError(
            "Spark's executors wrote the files of this write where this process does not see them.",
            table=transaction.log.url,
            file=name,
            hint="Nothing was committed. With Spark Connect or a cluster, the table must lie where both "
            "reach it under the same path: a shared file system or an object store.",
        ) from None


def _session_codec(frame: DataFrame) -> str | None:
    return frame.sparkSession.conf.get("spark.sql.parquet.compression.codec")


def _row_columns(metadata: Metadata, special: list[str]) -> list[tuple[str, str]]:
    """The row tracking columns of a frame and their names in files; none if the table does not track."""
    out = []
    for column, known in (
        (layout.ROW_ID, properties.ROW_ID_COLUMN_NAME),
        (layout.ROW_COMMIT_VERSION, properties.ROW_COMMIT_VERSION_COLUMN_NAME),
    ):
        name = properties.get(metadata.configuration, known)
        if column in special and name:
            out.append((column, str(name)))
    return out


def _actions(
    transaction: Transaction, metadata: Metadata, commits: pa.Table, *, data_change: bool
) -> Written:
    """The task commits of the portable way as actions."""
    changes = commits.filter(commits.column("is_change"))
    files = commits.filter(pc.invert(commits.column("is_change")))
    tight = transaction.protocol.supports("deletionVectors")
    _log.debug(
        "%s: %d files and %d change files written", transaction.log.url, files.num_rows, changes.num_rows
    )
    adds = {
        **_common(files, metadata, data_change),
        "modificationTime": files.column("modified"),
        "stats": statistics.texts(files, metadata, tight=tight),
    }
    return Written(
        _as(adds, ADD_SCHEMA, files.num_rows),
        _as(_common(changes, metadata, False), CDC_SCHEMA, changes.num_rows),
    )


def _common(commits: pa.Table, metadata: Metadata, data_change: bool) -> dict[str, pa.Array]:
    return {
        "path": pa.array([encode_path(p) for p in commits.column("path").to_pylist()], pa.string()),
        "partitionValues": portable.partition_maps(commits, metadata).cast(STRING_MAP),
        "size": commits.column("size"),
        "dataChange": pa.repeat(pa.scalar(data_change), commits.num_rows),
    }


def _as(columns: Mapping[str, pa.Array], schema: pa.Schema, rows: int) -> pa.Table:
    """Columns as a table of ``schema``, null where there is none."""
    return pa.table([columns.get(f.name, pa.nulls(rows, f.type)) for f in schema], schema=schema)


def adds_of(
    spark: SparkSession,
    transaction: Transaction,
    metadata: Metadata,
    written: list[tuple[Placed, int, int]],
    *,
    data_change: bool = True,
) -> pa.Table:
    """Task commits as add actions, with what is to be known of each file; empty files are left out."""
    mode = mapping_mode(metadata)
    partitions = {physical_name(f, mode): f for f in metadata.partition_schema.fields}
    names = [p.path for p, _, _ in written]
    found = measured(spark, place_of(transaction.log.store), names, metadata)
    texts = statistics.texts(found, metadata, tight=transaction.protocol.supports("deletionVectors"))
    adds = []
    for (place, size, modified), rows, text in zip(
        written, found.column("rows").to_pylist(), texts.to_pylist(), strict=True
    ):
        if rows == 0:
            continue
        values = {name: _normal(place.partition_values.get(name), f.type) for name, f in partitions.items()}
        adds.append(
            Add(
                path=encode_path(place.path),
                partition_values=values,
                size=size,
                modification_time=modified,
                data_change=data_change,
                stats=text,
            )
        )
    _log.debug("%s: %d files written", transaction.log.url, len(adds))
    return pa.Table.from_batches([to_batch(adds, ADD_SCHEMA)] if adds else [], ADD_SCHEMA)


def _normal(text: str | None, kind: DataType) -> str | None:
    """A partition value as the log spells it: timestamps in UTC, in the ISO form."""
    if text is None or kind != TIMESTAMP:
        return text
    # Not through Python's times, which end with the year 9999.
    date, _, time = text.partition(" ")
    whole, _, fraction = time.partition(".")
    return f"{date}T{whole}.{fraction:0<6}Z"
