"""Running the statements that show a table: DESCRIBE and SHOW."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate.commands import catalog, clustering
from tidegate.errors import SchemaInvalidError
from tidegate.log.snapshot import Snapshot, load
from tidegate.schema.columns import default_columns, generated_columns
from tidegate.spark.scan.projection import spark_type
from tidegate.sql import nodes
from tidegate.sql.context import Context
from tidegate.sql.parameters import literal
from tidegate.table.frames import rows

_DESCRIBED = "col_name string, data_type string, comment string"


def describe(context: Context, node: nodes.Describe) -> DataFrame:
    table = context.table(node.table)
    if node.what == "detail":
        return table.detail()
    if node.what == "history":
        return table.history(node.limit)
    snapshot = load(table._log)
    out = _columns(snapshot)
    if node.what == "extended":
        out += _more(context, node, snapshot)
    return rows(context.spark, [dict(zip(_names(), row, strict=True)) for row in out], _DESCRIBED)


def _names() -> list[str]:
    return ["col_name", "data_type", "comment"]


def _columns(snapshot: Snapshot) -> list[tuple[str, str, str | None]]:
    """The columns, then the partition or clustering columns under their heading, as Spark lists them."""
    found = catalog.columns_of(snapshot.url)
    out: list[tuple[str, str, str | None]] = [(c.name, c.type, c.comment) for c in found]
    partitions = [c for c in found if c.is_partition]
    if partitions:
        out += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        out += [(c.name, c.type, c.comment) for c in partitions]
    clustered = clustering.clustering_columns(snapshot)
    if clustered:
        out += [("# Clustering Information", "", ""), ("# col_name", "data_type", "comment")]
        kinds = {c.name: c for c in found}
        for path in clustered:
            one = kinds.get(path[0])
            out.append((".".join(path), one.type if one else "", one.comment if one else None))
    return out


def _more(context: Context, node: nodes.Describe, snapshot: Snapshot) -> list[tuple[str, str, str | None]]:
    entry = None if node.table.path else catalog.entry_of(context.spark, node.table.name)
    kind = "MANAGED" if entry is not None and entry.managed else "EXTERNAL"
    properties = ",".join(f"{k}={v}" for k, v in sorted(_properties(snapshot).items()))
    return [
        ("", "", ""),
        ("# Detailed Table Information", "", ""),
        ("Name", str(node.table), ""),
        ("Type", kind, ""),
        ("Location", snapshot.url, ""),
        ("Provider", "delta", ""),
        ("Table Properties", f"[{properties}]", ""),
    ]


def _properties(snapshot: Snapshot) -> dict[str, str]:
    """The properties as users set them: the table's own, and what its protocol says."""
    protocol = snapshot.protocol
    out = dict(snapshot.metadata.configuration)
    out["delta.minReaderVersion"] = str(protocol.min_reader_version)
    out["delta.minWriterVersion"] = str(protocol.min_writer_version)
    for name in sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())}):
        out[f"delta.feature.{name}"] = "supported"
    return out


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
                value = found.get(node.key, f"Table {node.table} does not have property: {node.key}")
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
    defaults = {d.name: d.current for d in default_columns(snapshot.schema)}
    generated = {g.name: g.expression for g in generated_columns(snapshot.schema)}
    columns = []
    for f in snapshot.schema.fields:
        text = f"{_quoted(f.name)} {spark_type(f.type).simpleString().upper()}"
        text += "" if f.nullable else " NOT NULL"
        if f.name in defaults:
            text += f" DEFAULT {defaults[f.name]}"
        if f.name in generated:
            text += f" GENERATED ALWAYS AS ({generated[f.name]})"
        if f.metadata.get("comment"):
            text += f" COMMENT {literal(f.metadata['comment'])}"
        columns.append(text)
    out = [f"CREATE TABLE {node.table.name} (", "  " + ",\n  ".join(columns) + ")", "USING delta"]
    if snapshot.partition_columns:
        out.append(f"PARTITIONED BY ({', '.join(_quoted(c) for c in snapshot.partition_columns)})")
    clustered = clustering.clustering_columns(snapshot)
    if clustered:
        out.append(f"CLUSTER BY ({', '.join('.'.join(c) for c in clustered)})")
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


def _quoted(name: str) -> str:
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"
