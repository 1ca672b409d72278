"""RESTORE without Spark: the marks of identity columns, which never go back."""

from __future__ import annotations

from typing import Any

import pytest

from support.tables import RawTable, column, schema_string
from tidegate.commands.alter import set_properties
from tidegate.commands.alter_names import rename_column
from tidegate.commands.drop_feature import drop_feature
from tidegate.commands.restore import restore
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.schema.columns import identity_columns, with_high_water_mark
from tidegate.transaction.transaction import Transaction

MAPPED = {"delta.columnMapping.mode": "name"}


def schema(name: str = "id", start: int = 1, step: int = 1) -> str:
    identity: dict[str, Any] = {
        "delta.identity.start": start,
        "delta.identity.step": step,
        "delta.identity.allowExplicitInsert": False,
    }
    return schema_string(column(name, **identity), column("v"))


def table(*, start: int = 1, step: int = 1, **properties: str) -> TableLog:
    """An empty table with an identity column, at version 0; ``__`` in a property stands for a dot."""
    log = RawTable().log
    configuration = {k.replace("__", "."): v for k, v in properties.items()}
    transaction = Transaction.begin(log)
    transaction.update_metadata(
        Metadata(id="t", schema_string=schema(start=start, step=step), configuration=configuration)
    )
    transaction.commit()
    return log


def number(log: TableLog, mark: int) -> None:
    """Give out the numbers up to the mark."""
    transaction = Transaction.begin(log)
    (identity,) = identity_columns(transaction.metadata.schema)
    new = with_high_water_mark(transaction.metadata.schema, identity.name, mark)
    transaction.move_identity(transaction.metadata.with_schema(new))
    transaction.commit()


def marks(log: TableLog) -> dict[str, int | None]:
    return {c.name: c.high_water_mark for c in identity_columns(load(log).schema)}


def test_a_mark_stays_with_its_column_whatever_the_column_was_called_then() -> None:
    log = table(delta__columnMapping__mode="name")
    number(log, 10)
    rename_column(log, "id", "pk")
    number(log, 20)
    restore(log, version=1)
    assert marks(log) == {"id": 20}
    restore(log, version=2)
    assert marks(log) == {"pk": 20}


def test_a_mark_goes_on_where_mapping_came_or_went_since() -> None:
    log = table()
    number(log, 10)
    set_properties(log, MAPPED)
    rename_column(log, "id", "pk")
    number(log, 20)
    restore(log, version=1)
    assert marks(log) == {"id": 20}
    for again in ({}, MAPPED):
        log = table(delta__columnMapping__mode="name")
        number(log, 10)
        drop_feature(log, "columnMapping")
        if again:
            set_properties(log, again)
        number(log, 20)
        restore(log, version=1)
        assert marks(log) == {"id": 20}


@pytest.mark.parametrize(
    ("start", "step", "mark", "version"), [(-1, -1, -10, 0), (1, 2, 41, 1), (2, 10, 102, 1), (2, 10, 102, 0)]
)
def test_a_column_that_counted_otherwise_leaves_the_mark_of_then(
    start: int, step: int, mark: int, version: int
) -> None:
    log = table(start=1, step=10)
    number(log, 31)
    transaction = Transaction.begin(log)
    transaction.update_metadata(Metadata(id="t", schema_string=schema("ID", start, step)))
    transaction.commit()
    number(log, mark)
    restore(log, version=version)
    assert marks(log) == {"id": 31 if version else None}


def test_a_mark_that_was_behind_and_one_that_goes_down_end_where_most_was_given_out() -> None:
    for step, steps in ((1, (5, 9)), (-1, (-5, -9))):
        log = table(step=step, start=step)
        for mark in steps:
            number(log, mark)
        for version in (0, 1, 2):
            restore(log, version=version)
            assert marks(log) == {"id": steps[-1]}
