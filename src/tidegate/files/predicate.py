"""Predicates as small frozen trees: what a user asks of rows, as far as the log can answer it.

``parse`` reads SQL text in Spark's dialect. What the tree has no node for (functions, arithmetic,
comparisons of two columns) becomes ``Unknown``, which is never used to leave a file out, so a tree
may promise less than the text but never more. Trees are made with names as the user wrote them;
``resolve`` gives them the table's own, and refuses a column that the table lacks.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.errors import PredicateError
from tidegate.schema.paths import Path, join_path
from tidegate.schema.types import DataType, StructType

__all__ = [
    "And",
    "Column",
    "Compare",
    "Constant",
    "In",
    "IsNull",
    "Literal",
    "Not",
    "Or",
    "Predicate",
    "StartsWith",
    "Unknown",
    "parse",
]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Plain words that are values without quotes.
_VALUES = frozenset({"true", "false", "null"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column, top-level or nested."""

    path: Path

    def __str__(self) -> str:
        # Every name that is not plainly one is quoted: the text is for reading back.
        return ".".join(
            p if _PLAIN.fullmatch(p) and p.lower() not in _VALUES else "`" + p.replace("`", "``") + "`"
            for p in self.path
        )


@dataclass(frozen=True, slots=True)
class Literal:
    """A value and the Spark type it was written in.

    ``type`` is one of void, boolean, long (every integer), decimal, float, double, string, binary,
    date, timestamp and timestamp_ntz; the value of the last two is microseconds since 1970 in UTC.
    """

    value: object
    type: str

    def __str__(self) -> str:
        if self.type == "string":
            return f"'{self.value}'"
        if self.type == "date":
            return f"DATE '{self.value}'"
        if self.type in ("timestamp", "timestamp_ntz") and isinstance(self.value, int):
            moment = datetime(1970, 1, 1) + timedelta(microseconds=self.value)
            return f"{self.type.upper()} '{moment.isoformat(' ')}'"
        if isinstance(self.value, bytes):
            return f"X'{self.value.hex()}'"
        if isinstance(self.value, float):
            return f"CAST('{self.value}' AS {self.type.upper()})"
        return "NULL" if self.value is None else str(self.value)


class Predicate:
    """A condition on rows, true, false or null for each."""

    __slots__ = ()

    @property
    def children(self) -> tuple[Predicate, ...]:
        return ()

    @property
    def own_columns(self) -> tuple[Path, ...]:
        """The columns this very node names."""
        return ()

    @property
    def columns(self) -> frozenset[Path]:
        """Every column named anywhere in the predicate."""
        return frozenset(path for node in self.walk() for path in node.own_columns)

    @property
    def is_known(self) -> bool:
        """Whether the tree says all that the text said."""
        return not any(isinstance(node, Unknown) for node in self.walk())

    def walk(self) -> Iterator[Predicate]:
        """This node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def conjuncts(self) -> tuple[Predicate, ...]:
        """The parts that must all be true."""
        return (self,)

    def only(self, partition_columns: Iterable[str]) -> Predicate:
        """The part that partition values alone decide; true where there is none."""
        return self.split(partition_columns)[0]

    def split(self, partition_columns: Iterable[str]) -> tuple[Predicate, Predicate]:
        """The conjuncts on partition columns alone, and the rest. Unknown ones are of the rest."""
        names = {(c.casefold(),) for c in partition_columns}
        mine: list[Predicate] = []
        rest: list[Predicate] = []
        for part in self.conjuncts():
            on_partitions = part.is_known and all(_folded(c) in names for c in part.columns)
            (mine if on_partitions else rest).append(part)
        return conjunction(mine), conjunction(rest)

    def resolve(self, schema: StructType) -> Predicate:
        """This predicate with every column in the schema's case; refuses columns that are not there."""
        return self.rewrite(lambda node: node._resolved(schema))

    def rewrite(self, change: Callable[[Predicate], Predicate]) -> Predicate:
        """This tree with every leaf replaced by what ``change`` makes of it."""
        return change(self)

    def _resolved(self, schema: StructType) -> Predicate:
        return self


def parse(text: str) -> Predicate:
    """The predicate in SQL text. ``PredicateError`` says where a text stops making sense."""
    from tidegate.files.predicate_sql import parse_sql

    return parse_sql(text)


def conjunction(parts: Iterable[Predicate]) -> Predicate:
    """True if all of ``parts`` are."""
    found = tuple(parts)
    return found[0] if len(found) == 1 else And(found) if found else Constant(True)


# ---------------------------------------------------------------------------- connectives


@dataclass(frozen=True, slots=True)
class And(Predicate):
    operands: tuple[Predicate, ...]

    @property
    def children(self) -> tuple[Predicate, ...]:
        return self.operands

    def conjuncts(self) -> tuple[Predicate, ...]:
        return tuple(part for operand in self.operands for part in operand.conjuncts())

    def rewrite(self, change: Callable[[Predicate], Predicate]) -> Predicate:
        return And(tuple(o.rewrite(change) for o in self.operands))

    def __str__(self) -> str:
        return "(" + " AND ".join(map(str, self.operands)) + ")"


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    operands: tuple[Predicate, ...]

    @property
    def children(self) -> tuple[Predicate, ...]:
        return self.operands

    def rewrite(self, change: Callable[[Predicate], Predicate]) -> Predicate:
        return Or(tuple(o.rewrite(change) for o in self.operands))

    def __str__(self) -> str:
        return "(" + " OR ".join(map(str, self.operands)) + ")"


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    operand: Predicate

    @property
    def children(self) -> tuple[Predicate, ...]:
        return (self.operand,)

    def rewrite(self, change: Callable[[Predicate], Predicate]) -> Predicate:
        return Not(self.operand.rewrite(change))

    def __str__(self) -> str:
        return f"NOT {self.operand}"


# ---------------------------------------------------------------------------- leaves


@dataclass(frozen=True, slots=True)
class Constant(Predicate):
    """The same answer for every row."""

    value: bool | None

    def __str__(self) -> str:
        return "NULL" if self.value is None else str(self.value).upper()


@dataclass(frozen=True, slots=True)
class Unknown(Predicate):
    """Something this module does not look into; it may be true, false or null for any row."""

    text: str
    named: tuple[Path, ...] = ()
    # Names in a subquery or a lambda are not the table's: they are not checked against it.
    own_names: bool = True

    @property
    def own_columns(self) -> tuple[Path, ...]:
        return self.named

    def _resolved(self, schema: StructType) -> Predicate:
        if self.own_names:
            paths = tuple(_resolve(p, schema)[0] for p in self.named)
        else:
            found = (schema.resolve(p[:1]) for p in self.named)
            paths = tuple(f[0] for f in found if f is not None)
        return Unknown(self.text, tuple(dict.fromkeys(paths)), self.own_names)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class _OnColumn(Predicate):
    column: Column

    @property
    def own_columns(self) -> tuple[Path, ...]:
        return (self.column.path,)

    def _at(self, column: Column) -> Predicate:
        raise NotImplementedError

    def _resolved(self, schema: StructType) -> Predicate:
        path, is_leaf = _resolve(self.column.path, schema)
        return self._at(Column(path)) if is_leaf else Unknown(str(self), (path,))


@dataclass(frozen=True, slots=True)
class Compare(_OnColumn):
    """A column against a value with one of = != < <= > >= <=>; the column stands on the left."""

    operator: str
    literal: Literal

    def _at(self, column: Column) -> Predicate:
        return Compare(column, self.operator, self.literal)

    def __str__(self) -> str:
        return f"{self.column} {self.operator} {self.literal}"


@dataclass(frozen=True, slots=True)
class In(_OnColumn):
    values: tuple[Literal, ...]

    def _at(self, column: Column) -> Predicate:
        return In(column, self.values)

    def __str__(self) -> str:
        return f"{self.column} IN ({', '.join(map(str, self.values))})"


@dataclass(frozen=True, slots=True)
class IsNull(_OnColumn):
    def _at(self, column: Column) -> Predicate:
        return IsNull(column)

    def __str__(self) -> str:
        return f"{self.column} IS NULL"


@dataclass(frozen=True, slots=True)
class StartsWith(_OnColumn):
    prefix: str

    def _at(self, column: Column) -> Predicate:
        return StartsWith(column, self.prefix)

    def __str__(self) -> str:
        return f"{self.column} LIKE '{self.prefix}%'"


# ---------------------------------------------------------------------------- names


def _folded(path: Path) -> Path:
    return tuple(p.casefold() for p in path)


def _resolve(path: Path, schema: StructType) -> tuple[Path, bool]:
    """A path in the table's case, and whether all of it was followed.

    What lies in an array or a map is no column of its own: the path then ends where that begins.
    """
    here: DataType = schema
    found: list[str] = []
    for part in path:
        if not isinstance(here, StructType):
            return tuple(found), False
        step = here.field(part)
        if step is None:
            raise _no_column(path, schema)
        found.append(step.name)
        here = step.type
    return tuple(found), True


def _no_column(path: Path, schema: StructType) -> PredicateError:
    known = {join_path(p).casefold(): join_path(p) for p, _ in schema.walk()}
    wanted = join_path(path)
    near = difflib.get_close_matches(wanted.casefold(), known, n=3, cutoff=0.6)
    shown = [known[n] for n in near]
    return PredicateError(
        f"The table has no column {wanted}.",
        hint=f"Did you mean {' or '.join(shown)}?"
        if shown
        else f"Its columns are: {', '.join(list(schema.names)[:20])}.",
    )
