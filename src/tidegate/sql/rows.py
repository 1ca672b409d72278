"""Running the statements that change rows: INSERT, UPDATE, DELETE, MERGE, TRUNCATE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from sqlglot.tokenizer_core import TokenType

from tidegate.commands.assignments import set_twice
from tidegate.commands.delete import delete as delete_rows
from tidegate.commands.update import update as update_rows
from tidegate.commands.write import write
from tidegate.errors import MergeInvalidError, OptionError, SchemaInvalidError
from tidegate.files.paths import HIVE_DEFAULT_PARTITION
from tidegate.log.snapshot import Snapshot, load
from tidegate.schema.columns import filled_columns
from tidegate.schema.types import StructType
from tidegate.spark.confs import session_defaults
from tidegate.spark.expressions import quote
from tidegate.spark.scan.projection import spark_type
from tidegate.spark.write.positions import by_name, by_position
from tidegate.sql import defaults, nodes
from tidegate.sql.context import Context
from tidegate.sql.dialect import Walk, tokens_of
from tidegate.sql.queries import query
from tidegate.sql.references import queries_in, without_qualifiers
from tidegate.sql.tables import nothing
from tidegate.table.frames import rows

_NULLS = "spark.sql.defaultColumn.useNullsForMissingDefaultValues"
_AFFECTED = "num_affected_rows bigint"
_CATALOG = "spark_catalog"
# What is assigned in a MERGE, beside its kinds of clauses; and which of table and source each of them sees.
_SET = "set"
_SEES = {
    "matched": slice(0, 2),
    "not_matched": slice(1, 2),
    "not_matched_by_source": slice(0, 1),
    _SET: slice(0, 1),
}


def insert(context: Context, node: nodes.Insert) -> DataFrame:
    """By position unless BY NAME or a list of columns says otherwise; static partitions are filled in."""
    if node.directory:
        raise OptionError(
            f"INSERT OVERWRITE DIRECTORY is not for Delta tables: {node.table.path} would have no log.",
            hint="CREATE TABLE ... LOCATION ... AS SELECT makes a table there.",
            errorClass="DELTA_OPERATION_NOT_ALLOWED",
        )
    log = context.log(node.table)
    snapshot = load(log)
    static = _static(node.partition, snapshot)
    names = _names(node, snapshot)
    text = node.query if names is None else defaults.in_query(node.query, names, snapshot.schema)
    frame = query(context, text)
    if names is None:
        frame = by_name(frame, snapshot.schema)
    else:
        _check_number(frame, names, may_grow=not node.columns and not node.partition)
        frame = by_position(frame, snapshot.schema, names)
    for name, text in static.items():
        column = snapshot.schema.field(name)
        assert column is not None
        frame = frame.withColumn(column.name, F.expr(text).cast(spark_type(column.type)))
    _check_complete(frame, snapshot.schema)
    options = {"mergeSchema": "true"} if node.evolution else {}
    overwrite = node.overwrite or node.replace_where is not None
    if node.replace_where is not None:
        options["replaceWhere"] = node.replace_where
    elif node.overwrite and _is_dynamic(context):
        options["partitionOverwriteMode"] = "dynamic"
    elif node.overwrite and static:
        options["replaceWhere"] = _in_partition(snapshot, static)
    write(
        frame,
        log.url,
        mode="overwrite" if overwrite else "append",
        options=options,
        defaults=session_defaults(context.spark),
        base=snapshot,
        by_policy=True,
    )
    return nothing(context)


def _static(said: Mapping[str, str | None], snapshot: Snapshot) -> dict[str, str]:
    """The partitions whose values the statement says."""
    partitions = {c.lower() for c in snapshot.partition_columns}
    for name in said:
        if name.lower() not in partitions:
            raise SchemaInvalidError(
                f"PARTITION speaks of {name}; the table is partitioned by "
                f"{', '.join(snapshot.partition_columns) or 'nothing'}.",
                table=snapshot.url,
                errorClass="NON_PARTITION_COLUMN",
            )
    return {k: v for k, v in said.items() if v is not None}


def _in_partition(snapshot: Snapshot, values: Mapping[str, str]) -> str:
    """The condition that rows are in a partition; its values are compared as columns hold them."""
    parts = []
    for name, value in values.items():
        column = snapshot.schema.field(name)
        assert column is not None
        is_null = value.strip("'\"") in ("", HIVE_DEFAULT_PARTITION)
        held = "NULL" if is_null else f"CAST(({value}) AS {spark_type(column.type).simpleString()})"
        parts.append(f"{quote(column.name)} <=> {held}")
    return " AND ".join(parts)


def _is_dynamic(context: Context) -> bool:
    found = context.spark.conf.get("spark.sql.sources.partitionOverwriteMode", "static")
    return (found or "").lower() == "dynamic"


def _names(node: nodes.Insert, snapshot: Snapshot) -> list[str] | None:
    """The columns that the query's go to, in its order; None where its own names say it."""
    if node.by_name:
        return None
    schema = snapshot.schema
    static = {k.lower() for k, v in node.partition.items() if v is not None}
    if node.columns:
        unknown = [n for n in node.columns if schema.field(n) is None]
        if unknown:
            raise SchemaInvalidError(
                f"The table has no column {', '.join(unknown)}; it has {', '.join(schema.names)}.",
                errorClass="UNRESOLVED_COLUMN.WITH_SUGGESTION",
            )
        _once(node.columns, "INSERT names", "COLUMN_ALREADY_EXISTS")
        both = [n for n in node.columns if n.lower() in static]
        if both:
            raise SchemaInvalidError(
                f"PARTITION says the value of {', '.join(both)}, and INSERT names it as a column too.",
                errorClass="STATIC_PARTITION_COLUMN_IN_INSERT_COLUMN_LIST",
            )
        return list(node.columns)
    return [n for n in schema.names if n.lower() not in static]


def _once(names: Sequence[str], where: str, error_class: str) -> None:
    """Refuse a column that is named twice."""
    folded = [n.lower() for n in names]
    twice = sorted({n for n in names if folded.count(n.lower()) > 1})
    if twice:
        raise SchemaInvalidError(f"{where} the column {', '.join(twice)} twice.", errorClass=error_class)


def _check_number(frame: DataFrame, names: Sequence[str], *, may_grow: bool) -> None:
    """As many columns as they go to; where the schema may grow, the write decides about more."""
    given = len(frame.columns)
    if given < len(names) or (given > len(names) and not may_grow):
        raise SchemaInvalidError(
            f"The query gives {given} columns, the table takes {len(names)} here ({', '.join(names)}).",
            hint="Name the columns behind the table, or insert BY NAME.",
            errorClass="DELTA_METADATA_MISMATCH"
            if given > len(names)
            else "DELTA_INSERT_COLUMN_ARITY_MISMATCH",
        )


def _check_complete(frame: DataFrame, schema: StructType) -> None:
    """Refuse the lack of a column that nothing fills, if it may not be null or the session gives no nulls."""
    nulls = frame.sparkSession.conf.get(_NULLS, "true") or "true"
    strict = nulls.lower() == "false"
    given = {c.lower() for c in frame.columns}
    filled = filled_columns(schema)
    for f in schema.fields:
        if (strict or not f.nullable) and f.name not in filled and f.name.lower() not in given:
            why = "may not be null, has" if not f.nullable else "has"
            raise SchemaInvalidError(
                f"The column {f.name} {why} no default, and is not named in INSERT.",
                hint=f"Name it, or set {_NULLS} = true." if strict and f.nullable else None,
                errorClass="DELTA_INSERT_COLUMN_MISMATCH",
            )


def update(context: Context, node: nodes.Update) -> DataFrame:
    log = context.log(node.table)
    _once([c for c, _ in node.set], "SET assigns", "DELTA_CONFLICT_SET_COLUMN")
    short = _shortened(context, (node.table, node.alias))
    values = defaults.in_assignments([(short(c), short(v)) for c, v in node.set], load(log).schema)
    where = None if node.where is None else short(node.where)
    count = update_rows(context.spark, log, values or {}, where, alias=node.alias or _last(node))
    return rows(context.spark, [{"num_affected_rows": count}], _AFFECTED)


def delete(context: Context, node: nodes.Delete) -> DataFrame:
    where = None if node.where is None else _shortened(context, (node.table, node.alias))(node.where)
    log = context.log(node.table)
    count = delete_rows(context.spark, log, where, alias=node.alias or _last(node))
    shown = -1 if count is None else count
    return rows(context.spark, [{"num_affected_rows": shown}], _AFFECTED)


def _shortened(context: Context, *tables: tuple[nodes.TableRef, str | None]) -> Callable[[str], str]:
    """Texts in which ``db.t.column`` is ``t.column``: frames go by one name, statements by several parts.

    Not where another alias hides the table's own name, which then may be that of the other side.
    """
    shown = [r for r, alias in tables if (alias or r.parts[-1]).casefold() == r.parts[-1].casefold()]
    named = [r.parts for r in shown if r.path is None]

    def short(text: str) -> str:
        # A name may be said with its database where the statement left that out.
        bare = [p for p in named if len(p) == 1 and f".{p[0].lower()}." in text.lower().replace("`", "")]
        within = context.spark.catalog.currentDatabase() if bare else ""
        longs = [p for p in named if len(p) > 1] + [(within, *p) for p in bare]
        return without_qualifiers(text, [*((_CATALOG, *p) for p in longs if len(p) == 2), *longs])

    return short


def _last(node: nodes.Statement) -> str | None:
    """What stands before columns where no alias is given: the table's own name."""
    return None if node.table.path is not None else node.table.parts[-1]


def truncate(context: Context, node: nodes.Truncate) -> DataFrame:
    """All rows, or those of the partitions named."""
    log = context.log(node.table)
    snapshot = load(log)
    static = _static(node.partition, snapshot)
    where = _in_partition(snapshot, static) if static else None
    delete_rows(context.spark, log, where, truncates=True)
    return nothing(context)


def merge(context: Context, node: nodes.Merge) -> DataFrame:
    table = context.table(node.table)
    # Before the source is planned, which may read this very table.
    snapshot = load(table._log)
    source = query(context, f"{node.common}SELECT * FROM {node.source}")
    target, alias, reads = _reading(context, node, snapshot, source)
    if alias is not None:
        source = source.alias(alias)
    on = reads["matched"](node.on)
    builder = (table.alias(target) if target is not None else table).merge(source, on)
    builder = builder._since(snapshot)
    if node.evolution:
        builder = builder.withSchemaEvolution()
    for clause in node.clauses:
        read, values = reads[clause.kind], None
        if clause.values is not None:
            where = "SET assigns" if clause.action == "update" else "INSERT names"
            _once([c for c, _ in clause.values], where, set_twice(clause.action.upper()))
            values = defaults.in_assignments(
                [(reads[_SET](c), read(v)) for c, v in clause.values], snapshot.schema
            )
        condition = None if clause.condition is None else read(clause.condition)
        match (clause.kind, clause.action):
            case ("matched", "delete"):
                builder = builder.whenMatchedDelete(condition)
            case ("matched", _) if values is None:
                builder = builder.whenMatchedUpdateAll(condition)
            case ("matched", _):
                builder = builder.whenMatchedUpdate(condition, values)
            case ("not_matched", _) if values is None:
                builder = builder.whenNotMatchedInsertAll(condition)
            case ("not_matched", _):
                builder = builder.whenNotMatchedInsert(condition, values)
            case (_, "delete"):
                builder = builder.whenNotMatchedBySourceDelete(condition)
            case _:
                builder = builder.whenNotMatchedBySourceUpdate(condition, values)
    done: DataFrame = builder.execute()
    return done


def _source_ref(text: str) -> nodes.TableRef | None:
    """The table that a source is, None where it is a query."""
    return None if text.startswith("(") else Walk(text, tokens_of(text)).table()


def _reading(
    context: Context, node: nodes.Merge, snapshot: Snapshot, source: DataFrame
) -> tuple[str | None, str | None, dict[str, Callable[[str], str]]]:
    """What table and source go by in a MERGE, and how its texts say so: what is assigned, and each kind's."""
    named = _source_ref(node.source)
    full = _namesakes(context, node, named)
    if full is not None:
        sides = [_Side(full[0], snapshot.schema.names), _Side(full[1], tuple(source.columns))]
        called = {of: partial(_called, sides=sides[seen]) for of, seen in _SEES.items()}
        return sides[0].alias, sides[1].alias, dict(called)
    tables = [(node.table, node.alias), *([] if named is None else [(named, node.source_alias)])]
    alias = node.source_alias or (None if named is None or named.path is not None else named.parts[-1])
    return node.alias or _last(node), alias, dict.fromkeys(_SEES, _shortened(context, *tables))


@dataclass(frozen=True)
class _Side:
    """A table of a MERGE whose last name is the other's too: its catalog, database and name; its columns."""

    name: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def alias(self) -> str:
        return ".".join(self.name[1:] if self.name[0].casefold() == _CATALOG else self.name)

    def named_by(self, parts: Sequence[str]) -> int:
        """How many of the parts before a column are this table's name; 0 where they are not."""
        folded = tuple(p.casefold() for p in parts)
        for start in range(len(self.name)):
            name = tuple(p.casefold() for p in self.name[start:])
            follows = folded[len(name) :]
            if follows and folded[: len(name)] == name:
                # A single name may be a column's too, and what follows its field.
                known = len(name) > 1 or follows[0] in {c.casefold() for c in self.columns}
                return len(name) if known else 0
        return 0


def _namesakes(
    context: Context, node: nodes.Merge, source: nodes.TableRef | None
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The full names of a table and its source that go by the same last name, and none by an alias."""
    tables = [node.table] if source is None else [node.table, source]
    if len(tables) < 2 or node.alias or node.source_alias or any(t.path is not None for t in tables):
        return None
    if len({t.parts[-1].casefold() for t in tables}) > 1:
        return None
    above = (_CATALOG, context.spark.catalog.currentDatabase())
    ours, theirs = ((*above[: max(0, 3 - len(t.parts))], *t.parts) for t in tables)
    same = [p.casefold() for p in ours] == [p.casefold() for p in theirs]
    return None if same else (ours, theirs)


def _called(text: str, sides: Sequence[_Side]) -> str:
    """``text`` with the aliases of tables in the place of their names; subqueries have names of their own."""
    tokens = tokens_of(text)
    queries = queries_in(text)
    dots = [t.token_type is TokenType.DOT for t in tokens]
    # A name by itself may be the variable of a lambda.
    alone = {t.text.casefold() for i, t in enumerate(tokens) if not any(dots[max(0, i - 1) : i + 2])}
    out, at, i = [], 0, 0
    while i < len(tokens):
        end = i + 1
        while end + 1 < len(tokens) and dots[end]:
            end += 2
        parts = [t.text for t in tokens[i:end:2]]
        inside = any(start <= tokens[i].start <= last for start, last in queries)
        found = [] if inside else [(s, n) for s in sides if (n := s.named_by(parts))]
        found = [(s, n) for s, n in found if n > 1 or parts[0].casefold() not in alone]
        if len(found) > 1:
            raise MergeInvalidError(
                f"{'.'.join(parts)} could be of {' and of '.join(s.alias for s, _ in found)}.",
                hint="Name the table with its database, or give both an alias.",
                errorClass="AMBIGUOUS_REFERENCE",
            )
        for side, n in found:
            out += [text[at : tokens[i].start], quote(side.alias)]
            at = tokens[i + 2 * n - 2].end + 1
        i = end
    return "".join([*out, text[at:]])
