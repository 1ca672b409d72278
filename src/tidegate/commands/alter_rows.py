"""Changes of a table that its rows must allow: CHECK constraints and NOT NULL, verified before they land.

The rows are counted in the same transaction that commits the change, which has read the whole table:
a row that another writer adds meanwhile is a conflict, never an exception to the rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.commands.alter import begin
from tidegate.commands.alter_columns import Change, altered, changes_operation, commit_altered
from tidegate.commands.defaults import check_default
from tidegate.errors import AlterRefusedError, InvariantViolationException
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.schema.constraints import check_constraints, constraint_key
from tidegate.schema.paths import join_path, split_path
from tidegate.spark.expressions import analyse, analysed
from tidegate.spark.jvm import is_connect
from tidegate.spark.scan.scans import scan
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Committed

# What Delta calls the check of char and varchar columns.
_LENGTHS = "__char_varchar_string_length_check__"


def add_constraint(spark: SparkSession, log: TableLog, name: str, expression: str) -> Committed:
    """ADD CONSTRAINT name CHECK (expression): every row there is must meet it already."""
    transaction, snapshot = begin(log)
    before = snapshot.metadata.configuration
    if name.lower() == _LENGTHS:
        raise AlterRefusedError(
            f"Cannot use '{name}' as the name of a CHECK constraint: lengths are checked by it.",
            table=log.url,
            errorClass="DELTA_INVALID_CONSTRAINT_NAME",
        )
    if constraint_key(name).lower() in {k.lower() for k in before}:
        raise AlterRefusedError(
            f"There is a constraint {name} already: {check_constraints(before).get(name.lower(), '')}",
            table=log.url,
            hint="Drop it first.",
            errorClass="DELTA_CONSTRAINT_ALREADY_EXISTS",
        )
    _check_boolean(spark, snapshot, expression)
    transaction.read_table()
    bad = _count(spark, snapshot, f"NOT coalesce(({expression}), false)")
    if bad:
        raise InvariantViolationException(
            f"{bad} rows of the table do not meet {expression}.",
            table=log.url,
            version=snapshot.version,
            hint="Correct or delete them first.",
            errorClass="DELTA_NEW_CHECK_CONSTRAINT_VIOLATION",
        )
    transaction.update_metadata(
        snapshot.metadata.with_configuration({**before, constraint_key(name): expression})
    )
    return transaction.commit(operation=Operation("ADD CONSTRAINT", {"name": name, "expr": expression}))


def alter_columns(spark: SparkSession, log: TableLog, changes: Sequence[Change]) -> Committed | None:
    """CHANGE COLUMN, one or several in one commit; a column becomes NOT NULL only where no row has null."""
    for name, change in changes:
        found = load(log).schema.resolve(name) if change.default else None
        if found is not None and change.default:
            check_default(spark, name, found[1].type, change.default)
    strict = [join_path(split_path(name)) for name, change in changes if change.nullable is False]
    if not strict:
        return commit_altered(log, *changes)
    transaction, snapshot = begin(log)
    metadata, paths = altered(snapshot, changes)
    if metadata == snapshot.metadata:
        return None
    transaction.read_table()
    for column in strict:
        bad = _count(spark, snapshot, f"{column} IS NULL")
        if bad:
            raise InvariantViolationException(
                f"{bad} rows of the table have null in {column}.",
                table=log.url,
                version=snapshot.version,
                hint="Fill or delete them first.",
                errorClass="DELTA_NEW_NOT_NULL_VIOLATION",
            )
    transaction.update_metadata(metadata)
    return transaction.commit(operation=changes_operation(metadata, paths, changes))


def _check_boolean(spark: SparkSession, snapshot: Snapshot, expression: str) -> None:
    """Refuse what does not parse, names no column of the table, or is no condition on one row."""
    frame = scan(spark, snapshot)
    kind = frame.select(F.expr(expression).alias("met")).schema["met"].dataType.typeName()
    if kind != "boolean":
        raise AlterRefusedError(
            f"The constraint {expression} is {kind}; a constraint is true or false.",
            table=snapshot.url,
            errorClass="DELTA_NON_BOOLEAN_CHECK_CONSTRAINT",
        )
    # As a filter it may hold no aggregate and no window, which a selection takes.
    met = frame.where(F.expr(expression))
    if is_connect(spark):
        analyse(met)
    analysed(frame, expression, "A CHECK constraint")


def _count(spark: SparkSession, snapshot: Snapshot, condition: str) -> int:
    if snapshot.num_files == 0:
        return 0
    return int(scan(spark, snapshot).where(condition).count())
