"""CONVERT: parquet files become a Delta table where they lie, by one commit that lists them.

Nothing is moved or rewritten. The schema is the union of the files' own, from their footers, as are
the statistics; partition values are what the names of the folders say, in the types the caller gives.
A file that does not fit the others is named before anything is committed. No Spark is needed.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate import properties as props
from tidegate.commands.clone import publish
from tidegate.commands.detail import location
from tidegate.commands.table_names import hidden
from tidegate.errors import (
    DataFileCorruptError,
    OptionError,
    SchemaInvalidError,
    TidegateError,
)
from tidegate.files import partitions
from tidegate.files.paths import HIVE_DEFAULT_PARTITION, encode_path, unescape_path_name
from tidegate.log.actions import Add
from tidegate.log.columns import ADD_SCHEMA, to_batch
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.schema.arrow import from_arrow_schema
from tidegate.schema.lengths import as_strings
from tidegate.schema.types import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    DataType,
    StructField,
    StructType,
    nullable,
    parse_schema,
)
from tidegate.spark.write import statistics as written
from tidegate.storage.store import FileInfo
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Transaction

_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_THREADS = 16


@dataclass(frozen=True)
class Parquet:
    """A folder of parquet files as a table would list it."""

    schema: StructType
    partition_columns: tuple[str, ...]
    adds: pa.Table


def convert_folder(
    log: TableLog,
    partition_schema: StructType | None = None,
    *,
    statistics: bool = True,
    defaults: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> int:
    """Make a table of the parquet files below ``log``'s place; how many files. 0 if it is a table already."""
    # Begun before the files are looked at: whoever makes a table of them meanwhile wins, and is left alone.
    transaction = Transaction.begin(log, defaults=defaults)
    if transaction.snapshot is not None:
        return 0
    found = read_folder(log, partition_schema or StructType(), statistics=statistics)
    count = int(found.adds.num_rows)
    if dry_run:
        return count
    transaction.update_metadata(
        Metadata(
            id=str(uuid.uuid4()),
            schema_string=found.schema.to_json(),
            partition_columns=found.partition_columns,
            configuration=dict(properties or {}),
        )
    )
    parameters = {
        "numFiles": count,
        "partitionedBy": list(found.partition_columns),
        "collectStats": str(statistics).lower(),
        "sourceFormat": "parquet",
    }
    metrics = {"numConvertedFiles": count}
    # No append: the files were there before.
    transaction.read_table()
    transaction.commit(
        operation=Operation("CONVERT", parameters), adds=found.adds, metrics=metrics, retry=False
    )
    return count


def read_folder(
    log: TableLog, partition_schema: StructType, *, statistics: bool = True, absolute: bool = False
) -> Parquet:
    """The parquet files below a place, with what their names and footers say."""
    names = [f.name for f in partition_schema.fields]
    files = [f for f in log.store.list_from("", recursive=True) if _is_data(f.name, names)]
    if not files:
        raise SchemaInvalidError(
            "There is no parquet file to make a table of.",
            table=log.url,
            errorClass="DELTA_EMPTY_DIRECTORY",
        )
    values = [_partition_values(f.name, partition_schema, log.url) for f in files]
    _check_values(values, files, partition_schema, log.url)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="tidegate-convert") as pool:
        read = list(pool.map(lambda f: _footer(log, f), files))
    data = _merged([(f.name, schema) for f, (_, schema) in zip(files, read, strict=True)], log.url)
    lower = {n.lower() for n in names}
    data = StructType(tuple(f for f in data.fields if f.name.lower() not in lower))
    schema = StructType((*data.fields, *partition_schema.fields))
    count = props.DATA_SKIPPING_NUM_INDEXED_COLS.default
    footers = [metadata for metadata, _ in read]
    if statistics:
        texts = written.of_footers(footers, written.first_leaves(data, count), tight=False)
    else:
        texts = [msgspec.json.encode({"numRecords": m.num_rows}).decode() for m in footers]
    root = encode_path(location(log.url)).replace("file%3A", "file:", 1) if absolute else ""
    adds = [
        Add(
            path=f"{root}/{encode_path(f.name)}" if absolute else encode_path(f.name),
            partition_values=row,
            size=f.size,
            modification_time=f.modified,
            data_change=True,
            stats=text,
        )
        for f, row, text in zip(files, values, texts, strict=True)
    ]
    return Parquet(schema, tuple(names), pa.Table.from_batches([to_batch(adds, ADD_SCHEMA)], ADD_SCHEMA))


def _is_data(name: str, partitions: list[str]) -> bool:
    return not hidden(name, partitions) and not name.endswith((".crc", "/_SUCCESS"))


def _footer(log: TableLog, file: FileInfo) -> tuple[pq.FileMetaData, StructType]:
    try:
        metadata = pq.read_metadata(log.store.open_input(file.name))
    except (pa.ArrowInvalid, OSError) as e:
        raise DataFileCorruptError(
            f"A file is not parquet: {str(e).splitlines()[0]}",
            table=log.url,
            file=file.name,
            hint="Move what does not belong to the table out of its folder.",
            errorClass="DELTA_CONVERT_NON_PARQUET_TABLE",
        ) from e
    try:
        text = (metadata.metadata or {}).get(_SPARK_SCHEMA)
        if text is not None:
            return metadata, _described(parse_schema(text.decode()))
        return metadata, _described(from_arrow_schema(metadata.schema.to_arrow_schema()))
    except TidegateError as e:
        raise e.at(table=log.url, file=file.name) from None


def _described(schema: StructType) -> StructType:
    """The columns of a file as a table has them: null is allowed, and of the metadata comments stay."""
    return nullable(schema).transform(
        lambda _, f: f.with_metadata({key: None for key in f.metadata if key != "comment"})
    )


def _merged(schemas: list[tuple[str, StructType]], table: str) -> StructType:
    """The union of the files' columns; a column of two types is an error that names the file."""
    out = schemas[0][1]
    seen = {out.to_json()}
    for name, schema in schemas[1:]:
        text = schema.to_json()
        if text not in seen:
            seen.add(text)
            out = _union(out, schema, name, table)
    return out


def _union(one: StructType, other: StructType, file: str, table: str) -> StructType:
    fields = list(one.fields)
    at = {f.name.lower(): i for i, f in enumerate(fields)}
    for f in other.fields:
        i = at.get(f.name.lower())
        if i is None:
            fields.append(f)
            continue
        known = fields[i].type
        if isinstance(known, StructType) and isinstance(f.type, StructType):
            fields[i] = fields[i].with_type(_union(known, f.type, file, table))
        elif known != f.type:
            raise SchemaInvalidError(
                f"The column {f.name} is {f.type} in this file and {known} in others.",
                table=table,
                file=file,
                errorClass="DELTA_FAILED_MERGE_SCHEMA_FILE",
            )
    return StructType(tuple(fields))


# ---------------------------------------------------------------------------- partitions


def inferred_partitions(log: TableLog) -> StructType:
    """The partition columns that the folders spell out: whole numbers, dates, or text."""
    found: dict[str, list[str | None]] = {}
    for file in log.store.list_from("", recursive=True):
        for folder in file.name.split("/")[:-1]:
            key, equals, value = folder.partition("=")
            if equals and not folder.startswith("."):
                text = unescape_path_name(value)
                found.setdefault(unescape_path_name(key), []).append(
                    None if text == HIVE_DEFAULT_PARTITION else text
                )
    return StructType(tuple(StructField(name, _kind_of(texts)) for name, texts in found.items()))


def _kind_of(texts: list[str | None]) -> DataType:
    strings = pa.array(dict.fromkeys(texts), pa.string())
    for kind in (INTEGER, LONG, DATE):
        unknown = partitions.parse(strings, kind).unknown
        if unknown is None or not pc.any(unknown).as_py():
            return kind
    return STRING


def _partition_values(name: str, schema: StructType, table: str) -> dict[str, str | None]:
    """What the folders of a file say, under the names of the partition columns."""
    said: dict[str, str | None] = {}
    for folder in name.split("/")[:-1]:
        key, found, value = folder.partition("=")
        if found:
            text = unescape_path_name(value)
            said[unescape_path_name(key)] = None if text == HIVE_DEFAULT_PARTITION else text
    wanted = [f.name for f in schema.fields]
    if [k.lower() for k in said] != [w.lower() for w in wanted]:
        raise SchemaInvalidError(
            f"The folders of this file say {list(said) or 'nothing'}, the partition columns are "
            f"{wanted or 'none'}.",
            table=table,
            file=name,
            hint="Give the partition columns and their types: PARTITIONED BY (day DATE).",
            errorClass="DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME"
            if len(said) != len(wanted)
            else "DELTA_UNEXPECTED_PARTITION_COLUMN_FROM_FILE_NAME",
        )
    return dict(zip(wanted, said.values(), strict=True))


def _check_values(
    values: list[dict[str, str | None]], files: list[FileInfo], schema: StructType, table: str
) -> None:
    for column in schema.fields:
        texts = pa.array([v[column.name] for v in values], pa.string())
        unknown = partitions.parse(texts, column.type).unknown
        if unknown is not None and pc.any(unknown).as_py():
            at = pc.index(unknown, pa.scalar(True)).as_py()
            raise SchemaInvalidError(
                f"The folder of this file says {column.name}={texts[at].as_py()}, which is no {column.type}.",
                table=table,
                file=files[at].name,
                errorClass="DELTA_FAILED_CAST_PARTITION_VALUE",
            )


# ---------------------------------------------------------------------------- shallow clones


def clone_parquet(
    source: TableLog,
    target: TableLog,
    partition_schema: StructType | None = None,
    *,
    replace: bool = False,
    properties: Mapping[str, str] | None = None,
    if_not_exists: bool = False,
) -> dict[str, Any] | None:
    """A table at ``target`` that refers to the parquet files below ``source``; the metrics of a clone."""
    schema = inferred_partitions(source) if partition_schema is None else partition_schema
    found = read_folder(source, schema, absolute=True)
    metadata = Metadata(
        id=str(uuid.uuid4()),
        schema_string=found.schema.to_json(),
        partition_columns=found.partition_columns,
        configuration=props.validate(dict(properties or {})),
    )
    parameters = {"source": f"parquet.`{location(source.url)}`", "sourceVersion": -1, "isShallow": "true"}
    return publish(
        target, found.adds, metadata, None, parameters, replace=replace, if_not_exists=if_not_exists
    )


# ---------------------------------------------------------------------------- the front door


def convert(
    spark: Any, identifier: str, partition_schema: Any = None, *, statistics: bool = True
) -> TableLog:
    """CONVERT TO DELTA in a Spark session: ``parquet.`/path``` or the name of a parquet table.

    Partition columns are DDL or a schema; of a name the catalog knows them.
    """
    from pyspark.sql import types as T

    from tidegate.commands.catalog import move
    from tidegate.spark.confs import log_at, session_defaults

    path = parquet_path(identifier)
    entry = None if path is not None else _parquet_entry(spark, identifier)
    log = log_at(spark, str(path if entry is None else entry.location))
    if entry is not None and entry.is_delta:
        return log
    if entry is not None and partition_schema is None:
        partition_schema = ", ".join(_catalog_partitions(spark, entry)) or None
    wanted = T.DataType.fromDDL(partition_schema) if isinstance(partition_schema, str) else partition_schema
    schema = StructType() if wanted is None else as_strings(parse_schema(wanted.json()))
    convert_folder(log, schema, statistics=statistics, defaults=session_defaults(spark))
    if entry is not None:
        move(spark, entry, entry.location)
    return log


def parquet_path(identifier: str) -> str | None:
    """The path in ``parquet.`/path```; None for a name of the catalog."""
    from tidegate.commands.names import split_name

    parts = split_name(identifier)
    if len(parts) == 2 and parts[0].lower() in ("parquet", "delta"):
        return parts[1]
    if "/" in parts[-1]:
        raise OptionError(
            f"{identifier} cannot be converted; only parquet files at a path can.",
            hint="Write parquet.`/path/of/the/files`.",
            errorClass="DELTA_MISSING_PROVIDER_FOR_CONVERT",
        )
    return None


def _parquet_entry(spark: Any, name: str) -> Any:
    """The catalog's entry of a parquet table that can be converted, or of a Delta table."""
    from tidegate.commands.catalog import check_movable, entry_of, not_found

    entry = entry_of(spark, name)
    if entry is None:
        raise not_found(name)
    if entry.is_delta:
        return entry
    if entry.is_view or (entry.provider or "").lower() != "parquet" or entry.location is None:
        raise OptionError(
            f"{name} is {'a view' if entry.is_view else f'of the format {entry.provider}'}; "
            "only parquet tables can be converted.",
            hint="Write parquet.`/path/of/the/files`, or CREATE TABLE ... USING delta AS SELECT.",
            errorClass="DELTA_CONVERT_NON_PARQUET_TABLE",
        )
    check_movable(spark, entry)
    return entry


def _catalog_partitions(spark: Any, entry: Any) -> list[str]:
    """The partition columns of a parquet table, each as a name and a type."""
    columns = spark.catalog.listColumns(entry.qualified)
    return [f"`{c.name.replace('`', '``')}` {c.dataType}" for c in columns if c.isPartition]
