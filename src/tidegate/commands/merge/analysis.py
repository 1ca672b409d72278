"""A MERGE understood, before anything runs: what each clause sets, and the schema the table will have.

Conditions and values see what their clause may see: both sides where rows match, the source alone where
rows are inserted, the table alone where the source has no match. ``*`` stands for all columns of the
table, or with schema evolution for all of the source, and then new columns join the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.commands.assignments import (
    Assignment,
    assignments_of,
    check_paths,
    check_values,
    names_exactly,
    no_target,
    target_path,
    typed,
)
from tidegate.commands.conditions import shape
from tidegate.commands.evolution import Widens, widening
from tidegate.commands.merge.clauses import Clause
from tidegate.commands.merge.source import Source
from tidegate.errors import MergeInvalidError, SchemaInvalidError
from tidegate.log.snapshot import Snapshot
from tidegate.schema.columns import IdentityColumn, generated_columns, identity_columns
from tidegate.schema.implicit import not_merging
from tidegate.schema.paths import Path, join_path, split_path
from tidegate.schema.types import StructType, duplicate_columns
from tidegate.spark.expressions import Analysed, analysed, as_column, qualified
from tidegate.spark.write.casts import Casts, casts_of
from tidegate.spark.write.fit import check_storable, merged, schema_of

# What Spark calls a name that it does not find, and a column that was taken from another frame.
_UNRESOLVED = ("UNRESOLVED_COLUMN", "UNRESOLVED_MAP_KEY")
_FOREIGN = ("MISSING_ATTRIBUTES",)


@dataclass(frozen=True)
class Understood:
    """One clause: its number in the MERGE, its condition and what it sets.

    ``alone`` says that names in it mean the table's columns only as long as no source stands beside it.
    ``values`` are what it sets, over what it sees, to be looked into and not to be run.
    """

    number: int
    clause: Clause
    condition: Column | None
    found: Analysed | None
    assignments: tuple[Assignment, ...] = ()
    alone: bool = False
    values: DataFrame | None = None


@dataclass(frozen=True)
class Analysis:
    """A whole MERGE: the condition, the clauses by kind, and the schema the table will have."""

    condition: Column
    found: Analysed
    schema: StructType
    matched: tuple[Understood, ...]
    not_matched: tuple[Understood, ...]
    by_source: tuple[Understood, ...]

    @property
    def updates(self) -> tuple[Understood, ...]:
        return tuple(u for u in (*self.matched, *self.by_source) if u.clause.action == "update")

    @property
    def deletes(self) -> tuple[Understood, ...]:
        return tuple(u for u in (*self.matched, *self.by_source) if u.clause.action == "delete")

    @property
    def values(self) -> tuple[DataFrame, ...]:
        """What the clauses set, by clause."""
        clauses = (*self.matched, *self.not_matched, *self.by_source)
        return tuple(u.values for u in clauses if u.values is not None)

    @property
    def inserts_only(self) -> bool:
        return not self.matched and not self.by_source

    @property
    def numbered(self) -> tuple[IdentityColumn, ...]:
        """The identity columns that some clause makes rows without."""
        given = [{a.path[0].casefold() for a in u.assignments} for u in self.not_matched]
        return tuple(
            i for i in identity_columns(self.schema) if any(i.name.casefold() not in g for g in given)
        )


def analyse(
    spark: SparkSession,
    snapshot: Snapshot,
    alias: str,
    source: Source,
    condition: str | Column,
    clauses: Sequence[Clause],
    *,
    evolves: bool,
) -> Analysis:
    """Understand a MERGE, or say what is wrong with it."""
    target = shape(spark, snapshot.schema, alias)
    both = target.crossJoin(source.given)
    with _names_told("The condition of MERGE", both):
        meant = analysed(both, condition, "The condition of MERGE")
    schema = snapshot.schema
    if evolves:
        schema = evolved(schema, source, clauses, alias, widening(spark, snapshot.metadata))
    sees = {"matched": both, "not matched": source.given, "not matched by source": target}
    found: dict[str, list[Understood]] = {when: [] for when in sees}
    casts = casts_of(spark)
    for number, clause in enumerate(clauses):
        reader = _Reader(snapshot.schema, schema, source, alias, sees[clause.when], evolves, casts)
        understood = reader.understood(number, clause)
        if clause.when == "not matched by source":
            understood = replace(understood, alone=_is_ambiguous(both, understood))
        found[clause.when].append(understood)
    return Analysis(
        as_column(condition),
        meant,
        schema,
        tuple(found["matched"]),
        tuple(found["not matched"]),
        tuple(found["not matched by source"]),
    )


@contextmanager
def _names_told(what: str, frame: DataFrame) -> Iterator[None]:
    """Tells names that Spark does not find among the columns of ``frame`` as Delta does for a MERGE."""
    try:
        yield
    except AnalysisException as e:
        kind = (e.getCondition() or "").split(".")[0]
        told = e.getMessageParameters() or {}
        sees = ", ".join(frame.columns)
        if kind in _UNRESOLVED:
            raise MergeInvalidError(
                f"{what} names {told.get('objectName')}, which cannot be found; it sees the columns {sees}."
            ) from e
        if kind in _FOREIGN:
            raise MergeInvalidError(
                f"{what} holds a column of another frame, {told.get('missingAttributes')}; it sees the "
                f"columns {sees}.",
                hint="Take the column from the source itself, or name it.",
                errorClass="DELTA_MERGE_RESOLVED_ATTRIBUTE_MISSING_FROM_INPUT",
            ) from e
        raise


def _is_ambiguous(both: DataFrame, clause: Understood) -> bool:
    """Whether a name in a clause could mean a column of either side, where both are to be seen."""
    columns = [a.column for a in clause.assignments]
    columns += [] if clause.condition is None else [clause.condition]
    try:
        schema_of(both.select(F.lit(1), *columns))
    except AnalysisException as e:
        if e.getCondition() == "AMBIGUOUS_REFERENCE":
            return True
        raise
    return False


def evolved(
    have: StructType, source: Source, clauses: Sequence[Clause], alias: str, widens: Widens | None
) -> StructType:
    """The table's schema with the columns of the source that clauses set and the table lacks.

    Columns that it has take the source's type where ``widens`` says so.
    """
    active = [c for c in clauses if c.when != "not matched by source"]
    star = any(c.is_star for c in active)
    named = [_stripped(name, alias) for c in active for name in (c.values or {})]
    comes = _assigned(source.schema, {_key(p) for p in named}, star, ())
    twice = duplicate_columns(comes)
    if twice:
        raise SchemaInvalidError(
            f"The source has columns twice: {', '.join(twice)}.",
            hint="In a table names differ by more than their case.",
            errorClass="DELTA_DUPLICATE_COLUMNS_FOUND.DATA",
        )
    unequal = not_merging(have, comes)
    if unequal is not None:
        path, before, after = unequal
        raise SchemaInvalidError(
            f"{join_path(path)} is {before} in the table and {after} in the source: the schema cannot evolve "
            "to hold both.",
            hint="Cast the source's column, or set the columns by name.",
            errorClass="DELTA_FAILED_TO_MERGE_FIELDS",
        )
    schema = merged(have, comes, widens=widens)
    if schema != have:
        check_storable(schema)
    return schema


def _stripped(name: str, alias: str) -> Path:
    path = split_path(name)
    return path[1:] if len(path) > 1 and path[0].casefold() == alias.casefold() else path


def _key(path: Path) -> Path:
    return tuple(p.casefold() for p in path)


def _assigned(schema: StructType, named: set[Path], star: bool, at: Path) -> StructType:
    """Of the source's fields those that some clause sets, by name or by ``*``."""
    out = []
    for f in schema.fields:
        path = (*at, f.name.casefold())
        inside = any(p[: len(path)] == path and len(p) > len(path) for p in named)
        if path in named:
            out.append(f)
        elif isinstance(f.type, StructType) and (star or inside):
            out.append(f.with_type(_assigned(f.type, named, star, path)))
        elif star:
            out.append(f)
    return StructType(tuple(out))


class _Reader:
    """Understands the clauses of one kind."""

    def __init__(
        self,
        have: StructType,
        schema: StructType,
        source: Source,
        alias: str,
        frame: DataFrame,
        evolves: bool,
        casts: Casts,
    ) -> None:
        self.have = have
        self.schema = schema
        self.source = source
        self.alias = alias
        self.frame = frame
        self.evolves = evolves
        self.casts = casts
        self.exact = names_exactly(frame.sparkSession)

    def understood(self, number: int, clause: Clause) -> Understood:
        condition, meant = None, None
        if clause.condition is not None:
            what = f"The condition of {clause}"
            with _names_told(what, self.frame):
                meant = analysed(self.frame, clause.condition, what)
            condition = as_column(clause.condition)
        with _names_told(str(clause), self.frame):
            given = [] if clause.action == "delete" else self._assignments(clause)
        assigned = tuple(replace(a, casts=self.casts) for a in given)
        within = [join_path(a.path) for a in assigned if len(a.path) > 1]
        if clause.action == "insert" and within:
            raise SchemaInvalidError(
                f"{clause} sets {', '.join(within)}: a new row takes whole columns.",
                hint="Give the column a struct with all of its fields.",
                errorClass="DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION",
            )
        identities = {i.name.casefold() for i in identity_columns(self.have)}
        if clause.action == "update" and any(a.path[0].casefold() in identities for a in assigned):
            raise MergeInvalidError(
                f"{clause} sets an identity column, which cannot be updated.",
                hint="Name the columns to set." if clause.is_star else None,
                errorClass="DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED",
            )
        # A type that does not fit is told before anything is read.
        old = StructType() if clause.action == "insert" else self.have
        if clause.action != "delete":
            check_values(self.frame, self.schema, old, assigned, lambda name: qualified(self.alias, name))
        values = self.frame.select(*(a.column for a in assigned)) if clause.values is not None else None
        return Understood(number, clause, condition, meant, assigned, values=values)

    def _assignments(self, clause: Clause) -> list[Assignment]:
        if clause.values is None:
            return self._star(clause)
        if not self.evolves or clause.when == "not matched by source":
            given = assignments_of(self.frame, self.have, clause.values, self.alias, str(clause), self.casts)
            # A struct may grow by another clause: the fields that join it are null here.
            return [replace(a, missing=self.evolves) for a in given]
        paths = []
        for name in clause.values:
            path = target_path(name, self.have, self.alias, self.exact)
            if path is None:
                # A column that joins the table by this very clause: the source has it.
                path = target_path(name, self.schema, self.alias, self.exact)
            if path is None:
                raise no_target(name, self.schema, str(clause), self.alias)
            paths.append(path)
        check_paths(paths, self.schema, str(clause))
        values = list(clause.values.values())
        read = typed(self.frame, values, str(clause))
        return [Assignment(p, c, t, missing=True) for p, (c, t) in zip(paths, read, strict=True)]

    def _star(self, clause: Clause) -> list[Assignment]:
        if self.evolves:
            keeps = clause.action == "update"
            return [
                Assignment((self._name(f.name),), self.source.column(f.name), f.type, True, keeps)
                for f in self.source.schema.fields
            ]
        generated = {g.name.casefold() for g in generated_columns(self.have)}
        generated |= {i.name.casefold() for i in identity_columns(self.have)}
        out = []
        for f in self.have.fields:
            found = self.source.schema.field(f.name)
            if found is not None and not (self.exact and found.name != f.name):
                out.append(Assignment((f.name,), self.source.column(found.name), found.type))
            elif f.name.casefold() not in generated:
                raise MergeInvalidError(
                    f"{clause} sets every column, but the source has no {f.name}; it has "
                    f"{', '.join(self.source.names)}.",
                    hint="Name the columns to set, or let the schema evolve.",
                )
        return out

    def _name(self, name: str) -> str:
        found = self.schema.field(name)
        if found is not None and self.exact and found.name != name:
            raise SchemaInvalidError(
                f"The source's column {name} is called {found.name} in the table, and the session tells "
                "names apart by their case.",
                hint="Call it as in the table, or set spark.sql.caseSensitive to false.",
                errorClass="DELTA_MISSING_SET_COLUMN",
            )
        return name if found is None else found.name


def clause_number(clauses: Sequence[Understood]) -> Column:
    """The number of the first clause whose condition is true, null if none is."""
    out = F.lit(None).cast("int")
    for u in reversed(clauses):
        number = F.lit(u.number)
        out = number if u.condition is None else F.when(u.condition, number).otherwise(out)
    return out


def described(clauses: Sequence[Understood]) -> list[dict[str, str]]:
    """Clauses as the history tells them."""
    return [
        {
            **({} if u.found is None else {"predicate": u.found.text}),
            "actionType": u.clause.action,
        }
        for u in clauses
    ]
