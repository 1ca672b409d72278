"""The portable delayed commit: ``mapInArrow``, on Spark's public API alone.

Each task writes parquet with pyarrow at the final place of its files and answers with one row per file:
where it is, its partition values, size and statistics. Only the rows of attempts that succeeded reach the
driver. It serves Spark Connect, change rows, random prefixes and places that Hadoop cannot open; what it
writes lies in the files as Spark itself lays it out.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from tidegate import properties
from tidegate.errors import OptionError
from tidegate.files import paths
from tidegate.metadata import Metadata
from tidegate.schema.arrow import to_arrow_field, to_arrow_schema
from tidegate.schema.mapping import mapping_mode, physical_name, to_physical
from tidegate.schema.types import (
    BINARY,
    STRING,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)
from tidegate.spark.carried import carried
from tidegate.spark.places import Place
from tidegate.spark.session import named
from tidegate.spark.write import layout, statistics
from tidegate.spark.write.task import Plan, writing

_log = logging.getLogger("tidegate.spark.write")
# As Spark names the codecs: what pyarrow calls them, and what stands before ".parquet".
_CODECS = {
    "snappy": ("snappy", "snappy."),
    "gzip": ("gzip", "gz."),
    "zstd": ("zstd", "zstd."),
    "lz4": ("lz4", "lz4hadoop."),
    "lz4_raw": ("lz4", "lz4raw."),
    "lz4raw": ("lz4", "lz4raw."),
    "brotli": ("brotli", "br."),
    "none": ("none", ""),
    "uncompressed": ("none", ""),
}
_VARIANT = StructType((StructField("value", BINARY, False), StructField("metadata", BINARY, False)))
# Tasks use the rules of names and directories by value, as everything they use.
carried(layout, paths)


def codec_of(metadata: Metadata, options: Mapping[str, str], session: str | None = None) -> str:
    """The codec of a write: its option, else the table's property, else the session's."""
    table = properties.get(metadata.configuration, properties.PARQUET_COMPRESSION_CODEC)
    name = (options.get("compression") or table or session or "snappy").lower()
    if name not in _CODECS:
        raise OptionError(
            f"There is no compression codec {name!r}.", hint=f"The codecs are {', '.join(_CODECS)}."
        )
    return name


def prefix_length(metadata: Metadata) -> int:
    """How long random directories are; 0 where files go by their partition."""
    wanted = properties.get(metadata.configuration, properties.RANDOMIZE_FILE_PREFIXES)
    if wanted or mapping_mode(metadata) != "none":
        return properties.get(metadata.configuration, properties.RANDOM_PREFIX_LENGTH)
    return 0


def stored_schema(metadata: Metadata) -> StructType:
    """The columns of data files: physical names, null allowed, no partition columns, no void."""
    mode = mapping_mode(metadata)
    partitions = {c.lower() for c in metadata.partition_columns}
    kept = StructType(tuple(f for f in metadata.schema.fields if f.name.lower() not in partitions))
    whole = _stored(to_physical(kept, mode))
    assert isinstance(whole, StructType)
    return whole


def _stored(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return StructType(
            tuple(
                StructField(f.name, _stored(f.type), True, f.metadata) for f in kind.fields if f.type != VOID
            )
        )
    if isinstance(kind, ArrayType):
        return ArrayType(_stored(kind.element), True)
    if isinstance(kind, MapType):
        return MapType(_stored(kind.key), _stored(kind.value), True)
    return _VARIANT if kind == VARIANT else kind


def write(
    frame: DataFrame,
    metadata: Metadata,
    place: Place,
    *,
    operation: str,
    options: Mapping[str, str],
    row_columns: Sequence[tuple[str, str]] = (),
    has_changes: bool = False,
) -> pa.Table:
    """Write ``frame`` (physical names) into ``place``; the task commits, one row per file.

    ``row_columns`` are columns beside the table's own that data files carry: their name in the frame
    and in the files. With ``has_changes`` the frame says of each row which kind of change it is.
    """
    mode = mapping_mode(metadata)
    stored = stored_schema(metadata)
    data = to_arrow_schema(stored, field_ids=mode != "none")
    changes = data.append(to_arrow_field(StructField(layout.CHANGE_TYPE, STRING))) if has_changes else None
    for _, name in row_columns:
        data = data.append(pa.field(name, pa.int64()))
    partitions = tuple(physical_name(f, mode) for f in metadata.partition_schema.fields)
    columns = statistics.columns_for_tasks(metadata)
    codec = codec_of(metadata, options, frame.sparkSession.conf.get("spark.sql.parquet.compression.codec"))
    result = pa.schema([*_ANSWER, *statistics.wire_fields(columns)])
    plan = Plan(
        place=place,
        data=data,
        changes=changes,
        partitions=partitions,
        columns=columns,
        result=result,
        compression=_CODECS[codec][0],
        extension=f"{_CODECS[codec][1]}parquet",
        max_records=int(options.get("maxRecordsPerFile") or 0),
        prefix_length=prefix_length(metadata),
        string_length=statistics.string_length(metadata),
    )
    names = [*stored.names, *(given for given, _ in row_columns), *partitions]
    keys = list(partitions)
    if has_changes:
        names.append(layout.CHANGE_TYPE)
    ordered = frame.select(*(_quoted(n) for n in names))
    if keys or has_changes:
        first = [F.col(layout.CHANGE_TYPE).isNotNull()] if has_changes else []
        ordered = ordered.sortWithinPartitions(*first, *(_quoted(k) for k in keys))
    # Spark Connect takes the name of an input column for a path, so that one with a dot is not found.
    ordered = ordered.toDF(*(f"c{i}" for i in range(len(names))))
    _log.debug("%s: writing below %r", operation, place)
    with named(frame.sparkSession, operation):
        answer = ordered.mapInArrow(writing(plan, names), from_arrow_schema(result)).toArrow()
    return answer.sort_by("path") if answer.num_rows else result.empty_table()


_ANSWER = [
    pa.field("path", pa.string()),
    pa.field("is_change", pa.bool_()),
    pa.field("values", pa.list_(pa.string())),
    pa.field("size", pa.int64()),
    pa.field("modified", pa.int64()),
    pa.field("rows", pa.int64()),
]


def partition_maps(commits: pa.Table, metadata: Metadata) -> pa.Array:
    """The partition values of each file as the log has them."""
    mode = mapping_mode(metadata)
    names = [physical_name(f, mode) for f in metadata.partition_schema.fields]
    rows = commits.num_rows
    values = commits.column("values").combine_chunks() if rows else pa.array([], pa.list_(pa.string()))
    offsets = pa.array(range(0, rows * len(names) + 1, max(len(names), 1))[: rows + 1], pa.int32())
    if not names:
        offsets = pa.array([0] * (rows + 1), pa.int32())
    keys = pa.array(names * rows, pa.string())
    return pa.MapArray.from_arrays(offsets, keys, pc.list_flatten(values).cast(pa.string()))


def _quoted(name: str) -> Any:
    return F.col("`" + name.replace("`", "``") + "`")
