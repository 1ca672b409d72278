"""Statements of any table that are about an index table: CREATE, INSERT, and what index tables do not have.

What the OPTIONS or TBLPROPERTIES of CREATE say are the options of the first write, of which the table
remembers those of indexing.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidegate.commands import catalog
from tidegate.errors import OptionError, SchemaInvalidError, TableNotFoundError
from tidegate.index import named
from tidegate.index.log import IndexLog
from tidegate.index.settings import PREFIX
from tidegate.index.snapshot import IndexSnapshot
from tidegate.index.write import write
from tidegate.index.write_options import KNOWN, NEEDLESS
from tidegate.schema.types import parse_schema
from tidegate.spark.scan.projection import spark_type
from tidegate.sql import nodes
from tidegate.sql.context import Context
from tidegate.sql.index_statements import index_path
from tidegate.sql.queries import query
from tidegate.sql.tables import field_of, nothing
from tidegate.table.index import IndexTable

_KEEPS = "An index table keeps the columns it was created with: DROP TABLE it first, or take another name."


def create(context: Context, node: nodes.Create) -> DataFrame:
    """CREATE TABLE ... USING indextables: empty, from a query, or a name for what lies at a location."""
    _check(node)
    options, said_path = _options(node)
    path = index_path(node.table)
    if path is not None:
        if node.mode != "create" and IndexLog.at(path).exists():
            raise OptionError(f"The index table at {path} cannot be replaced.", hint=_KEEPS)
        if (node.location or said_path or path) != path:
            raise OptionError(f"The table is named by its path {path}, and its location is another.")
        _make(context, node, path, options, if_not_exists=node.if_not_exists)
        return nothing(context)
    name = node.table.name
    if catalog.entry_of(context.spark, name) is not None:
        if node.mode == "create" and node.if_not_exists:
            return nothing(context)
        if node.mode == "create":
            raise named.exists(name, "Use CREATE TABLE IF NOT EXISTS, or another name.")
        raise OptionError(f"The index table {name} cannot be replaced.", hint=_KEEPS)
    if node.mode == "replace":
        raise TableNotFoundError(f"There is no table {name} to replace.", hint="CREATE TABLE makes it.")
    location, managed = named.check_new(context.spark, name, node.location or said_path)
    _make(context, node, location, options, adopt=not managed)
    named.enter(context.spark, name, location, managed=managed, comment=node.comment)
    return nothing(context)


def _check(node: nodes.Create) -> None:
    """Refuse what an index table cannot have, before anything is done."""
    refused = {
        "SHALLOW CLONE": node.clone,
        "LIKE": node.like,
        "CLUSTER BY": node.clustered,
        "NOT NULL": any(not c.nullable for c in node.columns),
        "DEFAULT": any(c.default is not None for c in node.columns),
        "GENERATED": any(c.generated is not None or c.identity is not None for c in node.columns),
    }
    for words, said in refused.items():
        if said:
            raise OptionError(f"An index table has no {words}.", hint="Leave it out.")
    if node.query is not None and node.columns:
        raise OptionError("CREATE TABLE AS SELECT takes its columns from the query; list none.")


def _options(node: nodes.Create) -> tuple[dict[str, str], str | None]:
    """The options of the write, and the path among them."""
    path = next((v for k, v in node.properties.items() if k.lower() == "path"), None)
    if path is not None and node.location is not None and path != node.location:
        raise OptionError(f"LOCATION is {node.location}, and the option path says {path}.")
    known = {k.lower() for k in (*KNOWN, *NEEDLESS)}
    given = {k: v for k, v in node.properties.items() if k.lower() != "path"}
    for key in given:
        bare = key.lower().removeprefix(PREFIX)
        if bare not in known and not bare.startswith("indexing."):
            raise OptionError(
                f"An index table has no property {key}.",
                hint=f"It takes options of index tables, such as {PREFIX}indexing.typemap.message.",
            )
    return given, path


def _make(
    context: Context,
    node: nodes.Create,
    location: str,
    options: dict[str, str],
    *,
    adopt: bool = False,
    if_not_exists: bool = False,
) -> None:
    """Make the table at ``location``; ``adopt`` takes one that lies there already."""
    log = IndexLog.at(location)
    if (adopt or if_not_exists) and log.exists() and node.query is None:
        if not if_not_exists:
            _check_alike(node, log.snapshot(), options)
        return
    if node.query is not None:
        frame = query(context, node.query)
    elif node.columns:
        frame = context.spark.createDataFrame([], T.StructType([field_of(c) for c in node.columns]))
    else:
        raise SchemaInvalidError(
            f"The index table {node.table} has no columns.", hint="List them, or write AS SELECT."
        )
    IndexTable.create(
        context.spark,
        location,
        frame,
        list(node.partitioned) or None,
        options,
        "ignore" if if_not_exists else "error",
    )


def _check_alike(node: nodes.Create, found: IndexSnapshot, options: dict[str, str]) -> None:
    """What the statement says of a table that is there already must be so."""
    said = T.StructType([field_of(c) for c in node.columns])
    wanted = [(f.name, f.type) for f in parse_schema(said.json()).fields]
    if wanted and wanted != [(f.name, f.type) for f in found.schema.fields]:
        raise SchemaInvalidError(
            f"The index table at {found.url} has other columns: "
            + ", ".join(f"{f.name} {spark_type(f.type).simpleString()}" for f in found.schema.fields),
            hint="Leave the columns out.",
        )
    if node.partitioned and tuple(node.partitioned) != found.partition_columns:
        raise SchemaInvalidError(
            f"The index table at {found.url} is partitioned by "
            f"{', '.join(found.partition_columns) or 'nothing'}.",
            hint="Leave PARTITIONED BY out.",
        )
    if options:
        raise OptionError(
            f"There is an index table at {found.url}, which remembers how it was made.",
            hint="Leave the options out.",
        )


# ---------------------------------------------------------------------------- rows


def location(context: Context, ref: nodes.TableRef) -> str | None:
    """Where the index table is that a statement speaks of; None if it speaks of another's."""
    path = index_path(ref)
    if path is not None or ref.path is not None:
        return path
    entry = catalog.entry_of(context.spark, ref.name)
    return entry.location if entry is not None and entry.is_index else None


def insert(context: Context, node: nodes.Insert) -> DataFrame:
    """By position unless BY NAME or a list of columns says otherwise; columns that get no value are null."""
    where = location(context, node.table)
    assert where is not None
    if node.partition:
        raise OptionError(
            "INSERT INTO an index table takes no PARTITION.", hint="Let the query give the column."
        )
    if node.evolution:
        raise OptionError("INSERT INTO an index table takes no WITH SCHEMA EVOLUTION.", hint=_KEEPS)
    schema = IndexLog.at(where).snapshot().schema
    frame = query(context, node.query)
    if not node.by_name:
        names = list(node.columns) or list(schema.names)
        unknown = [n for n in names if schema.field(n) is None]
        if unknown:
            raise SchemaInvalidError(
                f"The table has no column {', '.join(unknown)}; it has {', '.join(schema.names)}.",
                errorClass="UNRESOLVED_COLUMN.WITH_SUGGESTION",
            )
        if len(frame.columns) != len(names):
            raise SchemaInvalidError(
                f"The query gives {len(frame.columns)} columns, the table takes {len(names)} here "
                f"({', '.join(names)}).",
                hint="Name the columns behind the table, or insert BY NAME.",
            )
        frame = frame.toDF(*names)
    given = {c.lower() for c in frame.columns}
    for f in schema.fields:
        if f.name.lower() not in given:
            frame = frame.withColumn(f.name, F.lit(None).cast(spark_type(f.type)))
    overwrite = node.overwrite or node.replace_where is not None
    options = {} if node.replace_where is None else {"replaceWhere": node.replace_where}
    write(frame, where, mode="overwrite" if overwrite else "append", options=options)
    return nothing(context)


_INSTEAD = {
    nodes.Truncate: "INSERT OVERWRITE it with no rows, or DROP INDEXTABLES PARTITIONS FROM it.",
    nodes.Alter: _KEEPS,
}
_ROWS = "Overwrite partitions with INSERT INTO ... REPLACE WHERE, or index a Delta table with a companion."


def refuse(context: Context, node: nodes.Statement) -> DataFrame:
    """UPDATE, DELETE, MERGE, TRUNCATE and ALTER: index tables do not have them."""
    verb = type(node).__name__.upper()
    raise OptionError(
        f"{verb} is not served for the index table {node.table}.", hint=_INSTEAD.get(type(node), _ROWS)
    )
