"""The portable scan: a snapshot's files as a DataFrame, on Spark's public API alone.

Where Spark can open the place of the files, its own parquet reader reads them; where it cannot, tasks
read them with pyarrow. What is constant in a file (partition values, its deletion vector) comes by a small
broadcast join on the file. The result has the columns that the native relation has, ``_metadata.row_index``
included, so that all that is built on a relation is built on this one too. Nothing here touches Py4J.
"""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType
from pyspark.sql.types import StructField as SparkField
from pyspark.sql.types import StructType as SparkStruct

from tidegate.errors import DataFileCorruptError, DataFileMissingError, OptionError, TidegateError
from tidegate.files import partitions
from tidegate.files.paths import refuse_outside, resolve_path
from tidegate.schema.arrow import to_arrow_schema
from tidegate.schema.types import (
    BINARY,
    TIMESTAMP,
    VARIANT,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)
from tidegate.spark import failures, jvm
from tidegate.spark.hadoop import opens
from tidegate.spark.places import place_of
from tidegate.spark.scan import vectors
from tidegate.spark.scan.origins import noted
from tidegate.spark.scan.projection import FIELD_ID, file_metadata, spark_type
from tidegate.spark.scan.readers import MARK, Reading, reading
from tidegate.spark.write.lengths import filled

if TYPE_CHECKING:
    from tidegate.log.snapshot import Snapshot
    from tidegate.spark.scan.native import FilePlanner
    from tidegate.spark.scan.projection import Layout

_log = logging.getLogger(__name__)
_KEY, _ROW = "__tidegate_key", "__tidegate_row_index"
# Tasks that read with pyarrow: one for so many bytes, and a few at least where there are files for them.
_TASK_BYTES = 64 << 20
_FEW = 8
# A conf of the session: "true" for this way, "tasks" for this way with pyarrow.
READ = "spark.tidegate.read.portable"
_BY_ID = "spark.sql.parquet.fieldId.read.enabled"
_GLOB = re.compile(r"[*?{}\[\]\\]")
_noticed: set[str] = set()


def _asked(spark: SparkSession) -> str:
    found = str(spark.conf.get(READ, "false")).lower()
    if found not in ("false", "true", "tasks"):
        raise OptionError(f"{READ} is {found!r}; it is true, false or tasks.")
    return found


def serves(spark: SparkSession, url: str) -> bool:
    """Whether tables at ``url`` are read this way in this session."""
    return jvm.is_connect(spark) or _asked(spark) != "false" or not opens(spark, url)


def relation(planner: FilePlanner) -> DataFrame:
    """The files of a plan as physical columns, constants, bitmaps of deleted rows and rows' places."""
    files = planner.candidates()
    refuse_outside(files.column("path"))
    constants = planner.constants()
    if not files.num_rows:
        return _nothing(planner)
    data = [f.name for f in planner.layout.data.fields]
    by_spark = _spark_reads(planner)
    frame = _by_spark(planner, files, bool(constants)) if by_spark else _by_tasks(planner, files)
    if constants:
        described = _described(planner, files, by_spark)
        frame = frame.join(F.broadcast(described), _KEY)
    names = [*data, *(c["name"] for c in constants)]
    # What Spark's own reader sees it fills up itself.
    others = planner.layout.partitions.fields if by_spark else planner.physical.fields
    chars = {f.name: filled(_quoted(f.name), f) for f in others}
    return frame.select(*(chars.get(n, _quoted(n)) for n in names), _ROW)


def row_index() -> Column:
    """The place of each row of ``live_rows`` in its file."""
    return F.col(_ROW)


def _nothing(planner: FilePlanner) -> DataFrame:
    """The columns of the relation without any file; Spark Connect takes no empty Arrow table."""
    fields = [*_json(planner.layout.data)["fields"], *planner.constants()]
    place = SparkField(_ROW, LongType())
    schema = SparkStruct([*SparkStruct.fromJson({"type": "struct", "fields": fields}).fields, place])
    return planner.spark.createDataFrame([], schema)


def live_rows(planner: FilePlanner) -> DataFrame:
    """The relation without the rows that deletion vectors hide."""
    failures.watch(_root(planner.snapshot.url), planner.snapshot.url)
    frame = relation(planner)
    if planner.follow and jvm.is_connect(planner.spark):
        frame = noted(frame, [planner.snapshot.url])
    if planner.has_vectors:
        frame = frame.where(vectors.is_live(F.col(vectors.COLUMN), row_index()))
    return frame


def _root(url: str) -> str:
    return f"file:{url}" if url.startswith("/") else url


# ---------------------------------------------------------------------------- Spark's own reader


def _spark_reads(planner: FilePlanner) -> bool:
    """Whether Spark opens the place, and finds columns the way the table wants."""
    spark, url = planner.spark, planner.snapshot.url
    if _asked(spark) == "tasks":
        return False
    if not url.startswith("/") and not (not jvm.is_connect(spark) and jvm.can_open(spark, url)):
        _notice(url)
        return False
    # Columns mapped by id need a conf that no option of a read can set.
    by_id = planner.layout.mode == "id"
    return not by_id or str(spark.conf.get(_BY_ID, "false")).lower() == "true"


def _notice(url: str) -> None:
    scheme = url.split(":", 1)[0]
    if scheme not in _noticed:
        _noticed.add(scheme)
        _log.warning(
            "Spark has no file system for %s: here, so Python tasks read these files. With hadoop-aws (S3), "
            "gcs-connector or hadoop-azure on Spark's classpath, a classic session reads them natively.",
            scheme,
        )


def _by_spark(planner: FilePlanner, files: pa.Table, keyed: bool) -> DataFrame:
    root = planner.snapshot.url
    paths = [_full(root, p) for p in files.column("path").to_pylist()]
    schema = SparkStruct.fromJson(_json(planner.layout.data))
    reader = planner.spark.read.schema(schema)
    if any(_GLOB.search(p) for p in paths):
        # Names are names, never patterns.
        reader = reader.option("__globPaths__", "false")
    # Directories say nothing, and a file that is missing or corrupt is an error, whatever the session says.
    for option, value in (
        ("recursiveFileLookup", "true"),
        ("ignoreMissingFiles", "false"),
        ("ignoreCorruptFiles", "false"),
        ("datetimeRebaseMode", "CORRECTED"),
        ("int96RebaseMode", "CORRECTED"),
        ("mergeSchema", "false"),
    ):
        reader = reader.option(option, value)
    frame = reader.parquet(*(f"file:{p}" if p.startswith("/") else p for p in paths))
    columns = [_quoted(f.name) for f in schema.fields]
    about = file_metadata(frame, planner.layout.data)
    row = about.getField("row_index").alias(_ROW)
    return frame.select(*columns, *([_canonical(about).alias(_KEY)] if keyed else []), row)


def _canonical(about: Column) -> Column:
    """A file's path as Spark shows it, in the form of ``_full``: decoded, without the scheme on disks."""
    shown = F.replace(about.getField("file_path"), F.lit("+"), F.lit("%2B"))
    return F.regexp_replace(F.url_decode(shown), "^file:/+", "/")


def _full(root: str, path: str) -> str:
    """A data file's absolute path, or its URL in an object store."""
    place = resolve_path(path)
    return place.name if place.absolute else f"{root}/{place.name}"


# ---------------------------------------------------------------------------- tasks of ours


def task_plan(snapshot: Snapshot, layout: Layout) -> tuple[Reading, SparkStruct]:
    """What a task must know to read a table's files, and the columns it gives, a key and a row index last."""
    by_id = layout.mode == "id"
    stored = readable_types(layout.data)
    wanted = to_arrow_schema(stored)
    if by_id:
        wanted = _with_ids(wanted, stored)
    schema = SparkStruct.fromJson(_json(layout.data))
    out = SparkStruct([*schema.fields, SparkField(_KEY, IntegerType()), SparkField(_ROW, LongType())])
    return Reading(place_of(snapshot.log.store), wanted, by_id, _KEY, _ROW), out


def _by_tasks(planner: FilePlanner, files: pa.Table) -> DataFrame:
    snapshot, spark = planner.snapshot, planner.spark
    plan, out = task_plan(snapshot, planner.layout)
    names = task_names(snapshot.url, files)
    listed = pa.table({"key": pa.array(range(len(names)), pa.int32()), "path": pa.array(names, pa.string())})
    total = pc.sum(files.column("size")).as_py() or 0
    tasks = min(len(names), max(_FEW, total // _TASK_BYTES))
    return spark.createDataFrame(listed).repartition(tasks, F.col("key")).mapInArrow(reading(plan), out)


def task_names(root: str, files: pa.Table) -> list[str]:
    """The names by which tasks open files: below the table, or absolute on disks."""
    names = []
    for path in files.column("path").to_pylist():
        place = resolve_path(path)
        if place.absolute and not place.name.startswith(f"{root}/") and not place.name.startswith("/"):
            raise DataFileMissingError(
                "A data file lies outside of the table's own place, where tasks cannot open it.",
                table=root,
                file=path,
                hint="Read this table on a classic session whose Spark opens that place.",
            )
        names.append(place.name.removeprefix(f"{root}/") if place.absolute else place.name)
    return names


@overload
def readable_types(kind: StructType) -> StructType: ...
@overload
def readable_types(kind: DataType) -> DataType: ...
def readable_types(kind: DataType) -> DataType:
    """The types as Arrow carries them to Spark, null allowed everywhere."""
    if isinstance(kind, StructType):
        return StructType(
            tuple(StructField(f.name, readable_types(f.type), True, f.metadata) for f in kind.fields)
        )
    if isinstance(kind, ArrayType):
        return ArrayType(readable_types(kind.element), True)
    if isinstance(kind, MapType):
        return MapType(readable_types(kind.key), readable_types(kind.value), True)
    if kind == VARIANT:
        return StructType((StructField("value", BINARY, False), StructField("metadata", BINARY, False)))
    return kind


def _with_ids(schema: pa.Schema, stored: StructType) -> pa.Schema:
    return pa.schema([_field_with_id(a, f) for a, f in zip(schema, stored.fields, strict=True)])


def _field_with_id(arrow: pa.Field, field: StructField) -> pa.Field:
    identifier = field.metadata.get(FIELD_ID)
    out = arrow.with_type(_type_with_ids(arrow.type, field.type))
    return out if identifier is None else out.with_metadata({b"PARQUET:field_id": str(identifier).encode()})


def _type_with_ids(arrow: pa.DataType, kind: DataType) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([_field_with_id(arrow.field(i), f) for i, f in enumerate(kind.fields)])
    if isinstance(kind, ArrayType):
        return pa.list_(arrow.value_field.with_type(_type_with_ids(arrow.value_type, kind.element)))
    if isinstance(kind, MapType):
        return pa.map_(
            arrow.key_field.with_type(_type_with_ids(arrow.key_type, kind.key)),
            arrow.item_field.with_type(_type_with_ids(arrow.item_type, kind.value)),
        )
    return arrow


# ---------------------------------------------------------------------------- constants of files


def _described(planner: FilePlanner, files: pa.Table, by_spark: bool) -> DataFrame:
    """The constants of each file, by its key."""
    if by_spark:
        root = planner.snapshot.url
        keys = pa.array([_full(root, p) for p in files.column("path").to_pylist()], pa.string())
    else:
        keys = pa.array(range(files.num_rows), pa.int32())
    values = files.column("partitionValues").combine_chunks()
    columns = [keys]
    fields = planner.layout.partitions.fields
    for f in fields:
        columns.append(
            zoned(partitions.raw(values, f.name)) if f.type == TIMESTAMP else partitions.raw(values, f.name)
        )
    names = ["k", *(f"c{i}" for i in range(len(fields)))]
    if planner.has_vectors:
        columns.append(planner.packed_vectors(files))
        names.append("v")
    frame = planner.spark.createDataFrame(pa.Table.from_arrays(columns, names))
    casts = [F.col(f"c{i}").cast(spark_type(f.type)).alias(f.name) for i, f in enumerate(fields)]
    bitmap = [F.col("v").alias(vectors.COLUMN)] if planner.has_vectors else []
    return frame.select(F.col("k").alias(_KEY), *casts, *bitmap)


def zoned(texts: pa.Array) -> pa.Array:
    """Instants with their zone: a text without one is in UTC, whatever the session's zone is."""
    zoned = pc.match_substring_regex(texts, partitions.ZONE)
    return pc.if_else(zoned, texts, pc.binary_join_element_wise(texts, "Z", ""))


def _json(schema: StructType) -> Any:
    return json.loads(schema.to_json())


def _quoted(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def translated(text: str) -> TidegateError | None:
    """The failure of a task of ours in the text of a failed job; None if there is none."""
    _, found, rest = text.partition(f"{MARK}[")
    if not found:
        return None
    kind, _, rest = rest.partition("][")
    path, _, rest = rest.partition("][")
    reason = rest.partition(f"]{MARK}")[0]
    if kind == "MISSING":
        return failures.missing(path, None)
    return DataFileCorruptError(
        f"A data file cannot be read: {reason}",
        file=path,
        hint="Restore the file from a backup, or delete the rows it held.",
    )


failures.translate_with(translated)
