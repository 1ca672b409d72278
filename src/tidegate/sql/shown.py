"""Running the statements that show a table: DESCRIBE and SHOW."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidegate.commands import catalog, clustering
from tidegate.commands.detail import detail, elsewhere
from tidegate.commands.presence import is_folder
from tidegate.errors import FileMissingError, NotATableError, SchemaInvalidError
from tidegate.files.paths import location
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.schema.columns import default_columns, generated_columns, identity_columns
from tidegate.schema.lengths import described
from tidegate.schema.types import StructField, StructType
from tidegate.spark.catalog import SESSION_CATALOG, kept
from tidegate.spark.scan.projection import spark_type
from tidegate.sql import nodes
from tidegate.sql.context import Context
from tidegate.sql.parameters import literal
from tidegate.sql.services import refuse_view
from tidegate.table import naming
from tidegate.table.frames import DETAIL, rows

_DESCRIBED = "col_name string, data_type string, comment string"


def describe(context: Context, node: nodes.Describe) -> DataFrame:
    if node.what in ("detail", "history"):
        refuse_view(context, node.table, f"DESCRIBE {node.what.upper()}")
    if node.what == "detail":
        return rows(context.spark, [_detail(context, node.table)], DETAIL)
    with _only_delta(node):
        table = context.table(node.table)
    if node.what == "history":
        return table.history(node.limit)
    snapshot = load(table._log)
    if node.what == "column":
        return _column(context, snapshot, node.column)
    out = _columns(snapshot)
    if node.what == "extended":
        out += _more(context, node, snapshot)
    return rows(context.spark, [dict(zip(_names(), row, strict=True)) for row in out], _DESCRIBED)


@contextmanager
def _only_delta(node: nodes.Describe) -> Iterator[None]:
    """What DESCRIBE HISTORY says of a table that has no log."""
    try:
        yield
    except NotATableError as e:
        if node.what != "history":
            raise
        known = "DELTA_TABLE_ONLY_OPERATION" if node.table.path is not None else "DELTA_ONLY_OPERATION"
        raise NotATableError(e.message, table=e.table, hint=e.hint, errorClass=known) from None


def _detail(context: Context, ref: nodes.TableRef) -> dict[str, Any]:
    """DESCRIBE DETAIL: of a Delta table what its log says, of another one what the catalog keeps of it."""
    if ref.path is not None and ref.literal:
        log = TableLog.at(ref.path)
        try:
            return detail(load(log))
        except NotATableError:
            if is_folder(log):
                return elsewhere(ref.path)
            raise FileMissingError(
                f"There is nothing at {ref.path}.", hint="Check the path.", errorClass="DELTA_FILE_NOT_FOUND"
            ) from None
    entry = None if ref.path is not None else catalog.entry_of(context.spark, ref.name)
    if entry is None or entry.is_delta:
        return detail(load(context.log(ref)), _full_name(context, ref))
    known = kept(context.spark, entry)
    return elsewhere(
        None if entry.location is None else location(entry.location),
        format=entry.provider,
        name=naming.full_name(entry),
        comment=known.comment or "",
        created=known.created,
        partition_columns=known.partition_columns,
        properties=known.properties,
    )


def _names() -> list[str]:
    return ["col_name", "data_type", "comment"]


def _columns(snapshot: Snapshot) -> list[tuple[str, str, str | None]]:
    """The columns, then the partition columns under their heading, as Spark lists them."""
    found = catalog.columns_of(snapshot.url)
    out: list[tuple[str, str, str | None]] = [(c.name, c.type, c.comment) for c in found]
    if snapshot.partition_columns:
        out += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        told = {c.name.lower(): (c.name, c.type, c.comment) for c in found}
        out += [told[name.lower()] for name in snapshot.partition_columns]
    return out


def _column(context: Context, snapshot: Snapshot, name: str) -> DataFrame:
    """DESCRIBE of one column: its name, its type and what it is about."""
    found = next((c for c in catalog.columns_of(snapshot.url) if c.name.lower() == name.lower()), None)
    if found is None:
        raise SchemaInvalidError(
            f"There is no column {name}; the table has {', '.join(snapshot.schema.names)}.",
            table=snapshot.url,
            errorClass="UNRESOLVED_COLUMN.WITH_SUGGESTION",
        )
    told = (("col_name", found.name), ("data_type", found.type), ("comment", found.comment or "NULL"))
    listed = [{"info_name": k, "info_value": v} for k, v in told]
    return rows(context.spark, listed, "info_name string, info_value string")


def _more(context: Context, node: nodes.Describe, snapshot: Snapshot) -> list[tuple[str, str, str | None]]:
    """What DESCRIBE EXTENDED adds: what the catalog calls the table, and what its log says."""
    entry = None if node.table.path else catalog.entry_of(context.spark, node.table.name)
    named = {}
    if entry is not None:
        named = {
            "Catalog": SESSION_CATALOG,
            "Namespace": entry.database,
            "Database": entry.database,
            "Table": entry.name,
        }
    else:
        named = {"Name": str(node.table)}
    told = {
        **named,
        "Type": "MANAGED" if entry is not None and entry.managed else "EXTERNAL",
        "Comment": snapshot.metadata.description,
        "Location": location(snapshot.url),
        "Provider": "delta",
        "Table Properties": "["
        + ",".join(f"{k}={v}" for k, v in sorted(_properties(snapshot).items()))
        + "]",
    }
    out: list[tuple[str, str, str | None]] = [("", "", ""), ("# Detailed Table Information", "", "")]
    out += [(k, v, "") for k, v in told.items() if v is not None]
    defaults = {d.name: d.current for d in default_columns(snapshot.schema)}
    if defaults:
        out += [("", "", ""), ("# Column Default Values", "", "")]
        types = {c.name: c.type for c in catalog.columns_of(snapshot.url)}
        out += [(name, types[name], value) for name, value in defaults.items()]
    return out


def _properties(snapshot: Snapshot) -> dict[str, str]:
    """The properties as users set them: the table's own, and what its protocol and clustering say."""
    protocol = snapshot.protocol
    out = dict(snapshot.metadata.configuration)
    out["delta.minReaderVersion"] = str(protocol.min_reader_version)
    out["delta.minWriterVersion"] = str(protocol.min_writer_version)
    for name in sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())}):
        out[f"delta.feature.{name}"] = "supported"
    clustered = clustering.clustering_columns(snapshot)
    if clustered:
        out[clustering.SHOWN_PROPERTY] = json.dumps([list(c) for c in clustered], separators=(",", ":"))
    return out


def _full_name(context: Context, table: nodes.TableRef) -> str | None:
    """What the catalog calls a table, from the catalog down; None for a path."""
    entry = None if table.path else catalog.entry_of(context.spark, table.name)
    return None if entry is None else naming.full_name(entry)


def show(context: Context, node: nodes.Show) -> DataFrame:
    table = context.table(node.table)
    snapshot = load(table._log)
    match node.what:
        case "partitions":
            return _partitions(context, node, snapshot)
        case "columns":
            return rows(context.spark, [{"col_name": n} for n in snapshot.schema.names], "col_name string")
        case "tblproperties":
            found = _properties(snapshot)
            if node.key is not None:
                name = _full_name(context, node.table) or str(node.table)
                value = found.get(node.key, f"Table {name} does not have property: {node.key}")
                found = {node.key: value}
            listed = [{"key": k, "value": v} for k, v in sorted(found.items())]
            return rows(context.spark, listed, "key string, value string")
        case _:
            text = create_statement(context, node, snapshot)
            return rows(context.spark, [{"createtab_stmt": text}], "createtab_stmt string")


def _partitions(context: Context, node: nodes.Show, snapshot: Snapshot) -> DataFrame:
    """The distinct partition values, each column in its own type."""
    names = snapshot.partition_columns
    if not names:
        raise SchemaInvalidError(
            "The table is not partitioned.",
            table=snapshot.url,
            errorClass="DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE",
        )
    frame = context.table(node.table).toDF()
    columns = [F.col("`" + n.replace("`", "``") + "`") for n in names]
    return frame.select(*columns).distinct().orderBy(*columns)


def create_statement(context: Context, node: nodes.Show, snapshot: Snapshot) -> str:
    """A statement that would make the table as it is now."""
    columns = [_declared(f, snapshot.schema) for f in snapshot.schema.fields]
    out = [f"CREATE TABLE {node.table.name} (", "  " + ",\n  ".join(columns) + ")", "USING delta"]
    if snapshot.partition_columns:
        out.append(f"PARTITIONED BY ({', '.join(_quoted(c) for c in snapshot.partition_columns)})")
    clustered = clustering.clustering_columns(snapshot)
    if clustered:
        out.append(f"CLUSTER BY ({', '.join('.'.join(map(_quoted, c)) for c in clustered)})")
    if snapshot.metadata.description:
        out.append(f"COMMENT {literal(snapshot.metadata.description)}")
    entry = None if node.table.path else catalog.entry_of(context.spark, node.table.name)
    if entry is None or not entry.managed:
        out.append(f"LOCATION {literal(snapshot.url)}")
    properties = snapshot.metadata.configuration
    if properties:
        listed = ",\n  ".join(f"{literal(k)} = {literal(v)}" for k, v in sorted(properties.items()))
        out.append(f"TBLPROPERTIES (\n  {listed})")
    return "\n".join(out) + "\n"


def _declared(field: StructField, schema: StructType) -> str:
    """A column as CREATE TABLE declares it."""
    text = f"{_quoted(field.name)} {_type(spark_type(described(field)))}"
    text += "" if field.nullable else " NOT NULL"
    default = next((d.current for d in default_columns(schema) if d.name == field.name), None)
    text += "" if default is None else f" DEFAULT {default}"
    made = next((g.expression for g in generated_columns(schema) if g.name == field.name), None)
    text += "" if made is None else f" GENERATED ALWAYS AS ({made})"
    number = next((i for i in identity_columns(schema) if i.name == field.name), None)
    if number is not None:
        how = "BY DEFAULT" if number.allow_explicit_insert else "ALWAYS"
        text += f" GENERATED {how} AS IDENTITY (START WITH {number.start} INCREMENT BY {number.step})"
    if field.metadata.get("comment"):
        text += f" COMMENT {literal(field.metadata['comment'])}"
    return text


def _type(kind: T.DataType) -> str:
    """A type in capitals, the names of fields as they are."""
    if isinstance(kind, T.StructType):
        return "STRUCT<" + ", ".join(f"{_quoted(f.name)}: {_type(f.dataType)}" for f in kind) + ">"
    if isinstance(kind, T.ArrayType):
        return f"ARRAY<{_type(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"MAP<{_type(kind.keyType)}, {_type(kind.valueType)}>"
    return kind.simpleString().upper()


def _quoted(name: str) -> str:
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"
