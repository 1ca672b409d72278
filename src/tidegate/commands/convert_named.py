"""CONVERT TO DELTA in a Spark session: of files at a path, or of a parquet table of the catalog.

Of a table the catalog knows more than its files say: the columns, which partitions it has and where they
lie, its properties. That goes before, so the table has the rows afterwards that it had before.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tidegate import properties as props
from tidegate.commands.catalog import check_movable, entry_of, move, not_found
from tidegate.commands.convert import Known, Reading, convert_folder
from tidegate.commands.names import split_name
from tidegate.errors import OptionError, PropertyError, SchemaInvalidError
from tidegate.log.table_log import TableLog
from tidegate.schema.lengths import as_strings
from tidegate.schema.types import StructType, nullable, parse_schema
from tidegate.spark import catalog
from tidegate.spark.catalog import Entry
from tidegate.spark.confs import conf, log_at, session_defaults
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Transaction

_TRANSIENT = "transient_lastDdlTime"


def convert(
    spark: SparkSession, identifier: str, partition_schema: Any = None, *, statistics: bool = True
) -> TableLog:
    """Make a Delta table of ``parquet.`/path``` or of a parquet table by its name.

    Partition columns are DDL or a schema; of a name the catalog knows them.
    """
    entry = _parquet_entry(spark, identifier)
    path = _parquet_path(identifier) if entry is None else entry.location
    log = log_at(spark, str(path))
    if entry is not None and entry.is_delta:
        return log
    reading = Reading(
        statistics and conf(spark, "stats.collect", True),
        str(spark.conf.get("spark.sql.files.ignoreCorruptFiles", "false")).lower() == "true",
        conf(spark, "convert.useMetadataLog", True),
    )
    wanted = T.DataType.fromDDL(partition_schema) if isinstance(partition_schema, str) else partition_schema
    schema = StructType() if wanted is None else as_strings(parse_schema(wanted.json()))
    known = None
    if entry is not None:
        schema = _agreed(catalog_partitions(spark, entry), None if wanted is None else schema, entry)
        known = known_of(spark, entry, schema, log)
    count = convert_folder(log, schema, reading=reading, known=known, defaults=session_defaults(spark))
    if count == 0 and known is not None:
        _merge_properties(log, known, checks=conf(spark, "convert.metadataCheck.enabled", True))
    if entry is not None:
        move(spark, entry, str(entry.location))
    return log


def _parquet_path(identifier: str) -> str:
    """The path in ``parquet.`/path```."""
    parts = split_name(identifier)
    if len(parts) == 2 and parts[0].lower() in ("parquet", "delta"):
        return parts[1]
    if "/" in parts[-1]:
        raise OptionError(
            f"{identifier} cannot be converted: CONVERT TO DELTA only supports parquet tables.",
            hint="Write parquet.`/path/of/the/files`.",
            errorClass="DELTA_MISSING_PROVIDER_FOR_CONVERT"
            if len(parts) == 1
            else "DELTA_CONVERT_NON_PARQUET_TABLE",
        )
    raise not_found(identifier)


def _parquet_entry(spark: SparkSession, name: str) -> Entry | None:
    """The catalog's entry of a parquet table that can be converted, or of a Delta table; None for a path."""
    entry = None if "/" in split_name(name)[-1] else entry_of(spark, name)
    if entry is None or entry.is_delta:
        return entry
    if entry.is_view or (entry.provider or "").lower() != "parquet" or entry.location is None:
        raise OptionError(
            f"{name} is {'a view' if entry.is_view else f'of the format {entry.provider}'}; "
            "CONVERT TO DELTA only supports parquet tables.",
            hint="Write parquet.`/path/of/the/files`, or CREATE TABLE ... USING delta AS SELECT.",
            errorClass="DELTA_OPERATION_NOT_ALLOWED_DETAIL"
            if entry.is_view
            else "DELTA_CONVERT_NON_PARQUET_TABLE",
        )
    check_movable(spark, entry)
    return entry


def known_of(spark: SparkSession, entry: Entry, partitions: StructType, log: TableLog) -> Known:
    """What the catalog says of a parquet table."""
    schema = None
    if conf(spark, "convert.useCatalogSchema", True):
        schema = _columns(spark, entry)
    places = None
    if partitions.fields and conf(spark, "convert.useCatalogPartitions", True):
        places = tuple(
            (_below(log.url, place, entry), _spelled(spec, partitions))
            for spec, place in catalog.partitions(spark, entry)
        )
        if not places:
            raise OptionError(
                f"The catalog knows of no partition of {entry.name}.",
                table=log.url,
                hint="MSCK REPAIR TABLE finds those that are there.",
                errorClass="DELTA_CONVERSION_NO_PARTITION_FOUND",
            )
    shown = spark.sql(f"SHOW TBLPROPERTIES {entry.qualified}").collect()
    properties = {r["key"]: r["value"] for r in shown if r["key"] != _TRANSIENT}
    return Known(entry.qualified, schema, places, properties)


def _columns(spark: SparkSession, entry: Entry) -> StructType:
    """The columns of a parquet table; those with a length have it, which DataFrames do not show."""
    described = spark.sql(f"DESCRIBE TABLE {entry.qualified}").collect()
    kinds = {row["col_name"]: row["data_type"] for row in reversed(described)}
    fields = [
        T.StructField(f.name, T.DataType.fromDDL(kinds[f.name]), True, f.metadata)
        if "char(" in kinds.get(f.name, "")
        else f
        for f in spark.table(entry.qualified).schema.fields
    ]
    return nullable(as_strings(parse_schema(T.StructType(fields).json())))


def _below(root: str, place: str, entry: Entry) -> str:
    """A partition's folder as a name below the table."""
    prefix = root.rstrip("/") + "/"
    if not place.startswith(prefix):
        raise OptionError(
            f"The table {entry.name} has a partition at {place}, outside of its own folder {root}.",
            hint="Bring the files there, or CREATE TABLE ... USING delta AS SELECT.",
        )
    return place[len(prefix) :].rstrip("/") + "/"


def _spelled(spec: dict[str, str | None], partitions: StructType) -> dict[str, str | None]:
    """Values under the names of the partition columns, however the catalog writes them."""
    lower = {name.lower(): value for name, value in spec.items()}
    return {f.name: lower[f.name.lower()] for f in partitions.fields}


def _agreed(held: StructType, asked: StructType | None, entry: Entry) -> StructType:
    """The catalog's partition columns; the caller may repeat them, not name others."""
    if asked is not None and _comparable(asked) != _comparable(held):
        raise SchemaInvalidError(
            "CONVERT TO DELTA was called with a partition schema different from the partition schema "
            f"inferred from the catalog, {held}.",
            table=entry.name,
            hint="Leave PARTITIONED BY out.",
            errorClass="DELTA_UNEXPECTED_PARTITION_SCHEMA_FROM_USER",
        )
    return held


def _comparable(schema: StructType) -> list[tuple[str, str]]:
    return [(f.name.lower(), str(f.type)) for f in schema.fields]


def _merge_properties(log: TableLog, known: Known, *, checks: bool) -> None:
    """The files are a table already: its properties become those of the catalog too."""
    transaction = Transaction.begin(log)
    before = transaction.metadata.configuration
    merged = {**before, **props.validate(dict(known.properties), existing=before)}
    if merged == before:
        return
    if before and checks:
        raise PropertyError(
            f"The files are a table already, whose properties {before} are not those of the catalog, "
            f"{dict(known.properties)}.",
            table=log.url,
            hint="Set spark.databricks.delta.convert.metadataCheck.enabled to false to merge them.",
            errorClass="DELTA_CONVERT_METASTORE_METADATA_MISMATCH",
        )
    transaction.update_metadata(transaction.metadata.with_configuration(merged))
    parameters = {
        "numFiles": 0,
        "partitionedBy": [],
        "collectStats": False,
        "catalogTable": known.name,
        "sourceFormat": "parquet",
    }
    transaction.commit(operation=Operation("CONVERT", parameters))


def catalog_partitions(spark: SparkSession, entry: Entry) -> StructType:
    """The partition columns of a parquet table, as the catalog has them."""
    columns = [c for c in spark.catalog.listColumns(entry.qualified) if c.isPartition]
    if not columns:
        return StructType()
    ddl = ", ".join(f"`{c.name.replace('`', '``')}` {c.dataType}" for c in columns)
    return as_strings(parse_schema(T.DataType.fromDDL(ddl).json()))
