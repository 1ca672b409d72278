"""CONVERT: parquet files become a Delta table where they lie, by one commit that lists them.

Nothing is moved or rewritten. The schema is the union of the files' own, from their footers, as are
the statistics; partition values are what the names of the folders say, in the types the caller gives.
A file that does not fit the others is named before anything is committed. No Spark is needed.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate import properties as props
from tidegate.commands import sink_log
from tidegate.commands.clone import publish
from tidegate.commands.parquet_schemas import columns_of, described, merged
from tidegate.commands.table_names import hidden
from tidegate.errors import (
    DataFileCorruptError,
    OptionError,
    SchemaInvalidError,
    TidegateError,
)
from tidegate.files import partitions
from tidegate.files.paths import (
    HIVE_DEFAULT_PARTITION,
    encode_location,
    encode_path,
    location,
    unescape_path_name,
)
from tidegate.log.actions import Add
from tidegate.log.columns import ADD_SCHEMA, to_batch
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.schema.arrow import from_arrow_schema
from tidegate.schema.columns import EXISTS_DEFAULT
from tidegate.schema.types import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    DataType,
    StructField,
    StructType,
    parse_schema,
)
from tidegate.spark.write import statistics as written
from tidegate.storage.store import FileInfo
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Transaction

_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_THREADS = 16


@dataclass(frozen=True)
class Reading:
    """How files are looked for and read: with minima and maxima, without those that are no parquet."""

    statistics: bool = True
    skips_corrupt: bool = False
    # Where a stream has written the folder: the files of its commits alone.
    by_sink_log: bool = True


@dataclass(frozen=True)
class Known:
    """What a catalog says of a parquet table: its name, its columns, where its partitions are, properties."""

    name: str
    schema: StructType | None = None
    partitions: tuple[tuple[str, dict[str, str | None]], ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


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
    reading: Reading | None = None,
    known: Known | None = None,
    defaults: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> int:
    """Make a table of the parquet files below ``log``'s place; how many files. 0 if it is a table already.

    ``known`` is what a catalog says of them: it goes before what the files say.
    """
    how = reading or Reading()
    # Begun before the files are looked at: whoever makes a table of them meanwhile wins, and is left alone.
    transaction = Transaction.begin(log, defaults=defaults)
    if transaction.snapshot is not None:
        return 0
    own = {} if known is None else props.validate(dict(known.properties))
    _check_mapping({**(defaults or {}), **own}, log.url)
    found = read_folder(log, partition_schema or StructType(), how, known=known)
    count = int(found.adds.num_rows)
    if dry_run:
        return count
    transaction.update_metadata(
        Metadata(
            id=str(uuid.uuid4()),
            schema_string=found.schema.to_json(),
            partition_columns=found.partition_columns,
            configuration=own,
        )
    )
    parameters = {
        "numFiles": count,
        "partitionedBy": list(found.partition_columns),
        "collectStats": how.statistics,
        **({} if known is None else {"catalogTable": known.name}),
        "sourceFormat": "parquet",
    }
    metrics = {"numConvertedFiles": count}
    # No append: the files were there before.
    transaction.read_table()
    transaction.commit(
        operation=Operation("CONVERT", parameters), adds=found.adds, metrics=metrics, retry=False
    )
    return count


def _check_mapping(configuration: Mapping[str, str], table: str) -> None:
    """Files that are there have their columns' own names; a mapping would look for others."""
    asked = {k.lower(): v for k, v in configuration.items()}
    mode = asked.get(props.COLUMN_MAPPING_MODE.key.lower(), "none").lower()
    if mode != "none":
        raise OptionError(
            f"Files are made no table with the column mapping mode {mode}: they have names of their own.",
            table=table,
            hint="Leave delta.columnMapping.mode out, and set it afterwards.",
            errorClass="DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING",
        )


def read_folder(
    log: TableLog,
    partition_schema: StructType,
    reading: Reading | None = None,
    *,
    known: Known | None = None,
    absolute: bool = False,
) -> Parquet:
    """The parquet files below a place, with what their names and footers say."""
    how = reading or Reading()
    files, values = _placed(log, partition_schema, how, known)
    _check_values(values, files, partition_schema, log.url)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="tidegate-convert") as pool:
        footers = list(pool.map(lambda f: _footer(log, f, skips_corrupt=how.skips_corrupt), files))
    read = [(f, v, footer) for f, v, footer in zip(files, values, footers, strict=True) if footer is not None]
    if not read:
        raise _nothing(log.url)
    data = None if known is None else known.schema
    if data is None:
        data = merged([(f.name, schema) for f, _, (_, schema) in read], log.url)
    _refuse_filled(data, [(f.name, schema) for f, _, (_, schema) in read], log.url)
    schema = _with_partitions(data, partition_schema)
    texts = _texts([metadata for _, _, (metadata, _) in read], schema, partition_schema, how)
    root = encode_location(log.url).rstrip("/")
    adds = [
        Add(
            path=f"{root}/{encode_path(file.name)}" if absolute else encode_path(file.name),
            partition_values=row,
            size=file.size,
            modification_time=file.modified,
            data_change=True,
            stats=text,
        )
        for (file, row, _), text in zip(read, texts, strict=True)
    ]
    table = pa.Table.from_batches([to_batch(adds, ADD_SCHEMA)], ADD_SCHEMA)
    return Parquet(schema, tuple(f.name for f in partition_schema.fields), table)


def _refuse_filled(columns: StructType, files: list[tuple[str, StructType]], table: str) -> None:
    """Refuse columns that came with a default: in older files Spark fills it in, other readers do not."""
    filled = [f for f in columns.fields if str(f.metadata.get(EXISTS_DEFAULT, "NULL")).upper() != "NULL"]
    for column in filled:
        lacking = next((name for name, schema in files if schema.field(column.name) is None), None)
        if lacking is not None:
            raise SchemaInvalidError(
                f"The column {column.name} was added with the default {column.metadata[EXISTS_DEFAULT]}, "
                "which older files do not hold: as a Delta table their rows would have null in it.",
                table=table,
                file=lacking,
                hint="Write these files anew, or CREATE TABLE ... USING delta AS SELECT.",
            )


def _placed(
    log: TableLog, partition_schema: StructType, how: Reading, known: Known | None
) -> tuple[list[FileInfo], list[dict[str, str | None]]]:
    """The data files, and the partition values of each: as the catalog has them, or as the folders say."""
    names = [f.name for f in partition_schema.fields]
    files = [f for f in log.store.list_from("", recursive=True) if _is_data(f.name, names)]
    if how.by_sink_log:
        committed = sink_log.committed(log)
        files = files if committed is None else [f for f in files if f.name in committed]
    if known is None or known.partitions is None:
        if not files:
            raise _nothing(log.url)
        return files, [_partition_values(f.name, partition_schema, log.url) for f in files]
    places = dict(known.partitions)
    found = [(f, _innermost(f.name, places)) for f in files]
    kept = [(f, v) for f, v in found if v is not None]
    return [f for f, _ in kept], [v for _, v in kept]


def _innermost(name: str, places: Mapping[str, dict[str, str | None]]) -> dict[str, str | None] | None:
    """The values of the partition that a file is in; one may lie within the folder of another."""
    folder = name.rpartition("/")[0]
    while folder:
        if f"{folder}/" in places:
            return places[f"{folder}/"]
        folder = folder.rpartition("/")[0]
    return None


def _nothing(table: str) -> SchemaInvalidError:
    return SchemaInvalidError(
        "No file found in the directory: there is no parquet file to make a table of.",
        table=table,
        errorClass="DELTA_EMPTY_DIRECTORY",
    )


def _with_partitions(data: StructType, partitions: StructType) -> StructType:
    """The columns of a table: those of the files in their places, partition columns as they are given."""
    given = {f.name.lower(): f for f in partitions.fields}
    fields = [given.pop(f.name.lower(), f) for f in data.fields]
    return StructType((*fields, *given.values()))


def _texts(
    footers: list[pq.FileMetaData], schema: StructType, partitions: StructType, how: Reading
) -> list[str]:
    """The statistics of the files as text; without minima and maxima, how many rows they have."""
    if not how.statistics:
        return [msgspec.json.encode({"numRecords": m.num_rows}).decode() for m in footers]
    lower = {f.name.lower() for f in partitions.fields}
    data = StructType(tuple(f for f in schema.fields if f.name.lower() not in lower))
    count = props.DATA_SKIPPING_NUM_INDEXED_COLS.default
    return written.of_footers(footers, written.first_leaves(data, count), tight=False)


def _is_data(name: str, partitions: list[str]) -> bool:
    return not hidden(name, partitions) and not name.endswith((".crc", "/_SUCCESS"))


def _footer(
    log: TableLog, file: FileInfo, *, skips_corrupt: bool
) -> tuple[pq.FileMetaData, StructType] | None:
    try:
        metadata = pq.read_metadata(log.store.open_input(file.name))
    except (pa.ArrowInvalid, OSError) as e:
        if skips_corrupt:
            return None
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
            return metadata, described(parse_schema(text.decode()))
        return metadata, described(from_arrow_schema(columns_of(metadata)))
    except TidegateError as e:
        raise e.at(table=log.url, file=file.name) from None


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
    known: Known | None = None,
    replace: bool = False,
    properties: Mapping[str, str] | None = None,
    if_not_exists: bool = False,
    called: str | None = None,
) -> dict[str, Any] | None:
    """A table at ``target`` that refers to the parquet files below ``source``; the metrics of a clone.

    ``known`` is what a catalog says of them: it goes before what the files say.
    """
    schema = inferred_partitions(source) if partition_schema is None else partition_schema
    found = read_folder(source, schema, known=known, absolute=True)
    kept = {} if known is None else known.properties
    metadata = Metadata(
        id=str(uuid.uuid4()),
        schema_string=found.schema.to_json(),
        partition_columns=found.partition_columns,
        configuration=props.validate({**kept, **(properties or {})}),
    )
    name = called or f"parquet.`{location(source.url)}`"
    parameters = {"source": name, "sourceVersion": -1}
    return publish(
        target, found.adds, metadata, None, parameters, replace=replace, if_not_exists=if_not_exists
    )
