"""What a MERGE need not look at: the condition and the source's keys, as a predicate on the table.

``t.id = s.id`` and the least and greatest ``s.id`` say where matches can lie; for partition columns the
source's very values do. Parts of the condition that speak of the table alone say more. Whatever is not
surely understood says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tidegate.commands.conditions import known, quotes_names
from tidegate.commands.merge.analysis import Analysis
from tidegate.commands.merge.source import Source
from tidegate.files import predicate as predicates
from tidegate.files.predicate import Constant, In, Literal, Or, Predicate, conjunction
from tidegate.log.snapshot import Snapshot
from tidegate.schema.paths import Path, join_path
from tidegate.schema.sql_trees import tree_of
from tidegate.schema.types import DecimalType, PrimitiveType
from tidegate.spark.expressions import Analysed

# More values of a partition column than this are told by their bounds.
_LISTED = 1000
_INTEGERS = frozenset({"byte", "short", "integer", "long"})
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Key:
    """A column of the table that equals an expression of the source wherever rows match."""

    target: Path
    source: str


@dataclass(frozen=True)
class Parts:
    """The parts of a merge condition that all must hold: equalities, and what the table alone decides."""

    keys: tuple[Key, ...] = ()
    own: tuple[str, ...] = ()


def parts_of(found: Analysed, alias: str, snapshot: Snapshot, source: Source) -> Parts:
    """Read a merge condition as Spark understood it (or, on Connect, as it was written)."""
    if not found.is_sql or quotes_names(found.text, source.given.sparkSession):
        return Parts()
    try:
        tree = tree_of(found.text)
    except (SqlglotError, RecursionError):
        return Parts()
    keys: list[Key] = []
    own: list[str] = []
    side = _sides(alias, snapshot, source)
    tree = tree.unnest()
    for part in tree.flatten() if isinstance(tree, exp.And) else [tree]:
        part = part.unnest()
        sides = {side(c) for c in part.find_all(exp.Column)}
        if sides == {"target"}:
            own.append(part.sql("spark"))
        if isinstance(part, exp.EQ):
            for left, right in ((part.this, part.expression), (part.expression, part.this)):
                path = _path(left.unnest(), alias, snapshot)
                theirs = right.unnest()
                inner = theirs.this if isinstance(theirs, exp.Cast) else theirs
                if path is None or not isinstance(inner, exp.Column):
                    continue
                if (side(left.unnest()), side(inner)) == ("target", "source"):
                    keys.append(Key(path, theirs.sql("spark")))
    return Parts(tuple(keys), tuple(own))


def _sides(alias: str, snapshot: Snapshot, source: Source) -> Callable[[Any], str]:
    mine = {n.casefold() for n in snapshot.schema.names}
    theirs = {n.casefold() for n in source.names}

    def side(column: Any) -> str:
        parts = [p.name.casefold() for p in column.parts]
        if len(parts) > 1 and parts[0] == alias.casefold():
            return "target"
        if parts[0] in mine and parts[0] not in theirs:
            return "target" if len(parts) == 1 else "unknown"
        return "source"

    return side


def _path(e: Any, alias: str, snapshot: Snapshot) -> Path | None:
    if not isinstance(e, exp.Column):
        return None
    parts = tuple(p.name for p in e.parts)
    if len(parts) > 1 and parts[0].casefold() == alias.casefold():
        parts = parts[1:]
    found = snapshot.schema.resolve(parts)
    return None if found is None else found[0]


@dataclass(frozen=True)
class Facts:
    """What is known of the source once it was read: its rows, and where in the table they can match."""

    rows: int
    matches: Predicate


def facts_of(rows: DataFrame, parts: Parts, snapshot: Snapshot, alias: str, source: Source) -> Facts:
    """Ask the source for its number of rows and the bounds of its keys, in one job."""
    keys = [k for k in parts.keys if _comparable(k, snapshot)]
    columns = [F.count(F.lit(1)).alias("n")]
    partitions = {c.casefold() for c in snapshot.partition_columns}
    listed = [len(k.target) == 1 and k.target[0].casefold() in partitions for k in keys]
    for i, key in enumerate(keys):
        value = F.expr(key.source)
        columns += [F.min(value).alias(f"low{i}"), F.max(value).alias(f"high{i}")]
        if listed[i]:
            columns.append(F.collect_set(value).alias(f"set{i}"))
    try:
        answer = source.at_once(rows.agg(*columns)).toArrow()
    except AnalysisException:
        # A key that cannot be ordered, or not be asked for by its text.
        keys, answer = [], rows.agg(columns[0]).toArrow()
    found = [_predicate(answer, i, key, snapshot) for i, key in enumerate(keys)]
    own = [known(text, snapshot.schema, rows.sparkSession, alias) for text in parts.own]
    count = int(answer.column("n")[0].as_py())
    matches = conjunction([p for p in (*found, *own) if p is not None]) if count else Constant(False)
    return Facts(count, matches)


def _comparable(key: Key, snapshot: Snapshot) -> bool:
    field = snapshot.schema.find(key.target)
    if field is None:
        return False
    if isinstance(field.type, DecimalType):
        return True
    names = _INTEGERS | {"string", "date", "timestamp", "timestamp_ntz"}
    return isinstance(field.type, PrimitiveType) and field.type.name in names


def _predicate(answer: pa.Table, i: int, key: Key, snapshot: Snapshot) -> Predicate | None:
    field = snapshot.schema.find(key.target)
    assert field is not None
    kind = field.type.name if isinstance(field.type, PrimitiveType) else "decimal"
    column = predicates.Column(key.target)
    low, high = (_literal(answer.column(f"{n}{i}")[0], kind) for n in ("low", "high"))
    if low is None or high is None:
        # Nothing equals null; what is not null and not understood says nothing.
        is_null = not answer.column(f"low{i}")[0].is_valid
        return Constant(False) if is_null else None
    if f"set{i}" in answer.column_names:
        values = [_literal(v, kind) for v in answer.column(f"set{i}")[0].values]
        if len(values) <= _LISTED and all(v is not None for v in values):
            return In(column, tuple(v for v in values if v is not None))
    return conjunction([predicates.Compare(column, ">=", low), predicates.Compare(column, "<=", high)])


def _literal(value: pa.Scalar, kind: str) -> Literal | None:
    """A value of the source as a literal, where its type is that of the table's column."""
    if not value.is_valid:
        return None
    if kind in ("timestamp", "timestamp_ntz"):
        if not pa.types.is_timestamp(value.type) or (value.type.tz is None) == (kind == "timestamp"):
            return None
        return Literal(value.cast(pa.timestamp("us", value.type.tz)).value, kind)
    try:
        plain = value.as_py()
    except (OverflowError, ValueError):
        # A date that Python does not know, after the year 9999.
        return None
    if kind in _INTEGERS and isinstance(plain, int) and not isinstance(plain, bool):
        return Literal(plain, "long")
    if kind == "string" and isinstance(plain, str):
        return Literal(plain, "string")
    if kind == "date" and isinstance(plain, date) and not isinstance(plain, datetime):
        return Literal(plain, "date")
    if kind == "decimal" and isinstance(plain, Decimal):
        return Literal(plain, "decimal")
    return None


def looked_at(
    facts: Facts, analysis: Analysis, snapshot: Snapshot, spark: Any, alias: str, source: Source
) -> Predicate:
    """Where rows lie that the MERGE may change or must compare: matches, and what has no match."""

    def own(condition: Analysed | None) -> Predicate:
        """What a clause that sees both sides asks of the table alone."""
        texts = () if condition is None else parts_of(condition, alias, snapshot, source).own
        return conjunction(known(text, snapshot.schema, spark, alias) for text in texts)

    matches = facts.matches
    if not analysis.not_matched:
        # Nothing is inserted: a match matters only where a clause may act on it.
        matches = conjunction([matches, Or(tuple(own(u.found) for u in analysis.matched))])
    if not analysis.by_source:
        return matches
    conditions: list[Predicate] = []
    for u in analysis.by_source:
        if u.found is None or not u.found.is_sql:
            return Constant(True)
        conditions.append(known(u.found.text, snapshot.schema, spark, alias))
    return Or((matches, *conditions))


def key_filter(keys: Sequence[Key], facts: Facts, alias: str) -> Column | None:
    """The bounds of integer and string keys as a filter for the scan, so that row groups are skipped."""
    wanted = {k.target for k in keys}
    out: Column | None = None
    for node in facts.matches.conjuncts():
        if isinstance(node, predicates.Compare) and node.column.path in wanted:
            if node.literal.type not in ("long", "string") or node.operator not in ("<=", ">="):
                continue
            column = F.col(f"`{alias}`.{join_path(node.column.path)}")
            value = F.lit(node.literal.value)
            part = column <= value if node.operator == "<=" else column >= value
            out = part if out is None else out & part
    return out
