"""ALTER TABLE of columns without Spark: what is in structs, arrays and maps, identities, statistics."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest

from support.log_commands import now
from support.tables import column
from tidegate.commands.alter_columns import ColumnChange, commit_altered, parse_position
from tidegate.commands.alter_names import drop_columns, rename_column
from tidegate.commands.replace_columns import replace_columns
from tidegate.errors import AlterRefusedError
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.schema.lengths import KEY as LENGTHS
from tidegate.schema.types import INTEGER, LONG, STRING, StructField, StructType, parse_schema
from tidegate.storage.memory import MemoryStore
from tidegate.transaction.transaction import Transaction

INDEXED = "delta.dataSkippingStatsColumns"
IDENTITY = {
    "delta.identity.start": 1,
    "delta.identity.step": 1,
    "delta.identity.allowExplicitInsert": True,
}


def _struct(*columns: dict[str, object]) -> dict[str, object]:
    return {"type": "struct", "fields": list(columns)}


def _table(*columns: dict[str, object], **configuration: str) -> TableLog:
    log = TableLog(MemoryStore(), clock=now)
    transaction = Transaction.begin(log)
    schema = json.dumps(_struct(*columns))
    named = {k.replace("_", "."): v for k, v in configuration.items()}
    transaction.update_metadata(Metadata(id="1", schema_string=schema, configuration=named))
    transaction.commit(operation="CREATE TABLE")
    return log


@pytest.fixture
def nested() -> TableLog:
    """A column, a struct of two, a struct of one, and structs in an array and a map."""
    pair = _struct(column("x", "short"), column("y", "short"))
    one = {"valueContainsNull": True, "keyType": "short", "valueType": pair}
    return _table(
        column("id"),
        column("s", pair),
        column("one", _struct(column("x"))),
        column("a", {"type": "array", "elementType": "short", "containsNull": True}),
        column("m", {"type": "map", **one}),
        delta_columnMapping_mode="name",
        delta_enableTypeWidening="true",
        delta_dataSkippingStatsColumns="id,s.x,m",
    )


@pytest.mark.parametrize(
    ("attempt", "error_class"),
    [
        (lambda log: drop_columns(log, ["one.x"]), "DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA"),
        (lambda log: drop_columns(log, ["s.x", "s.y"]), "DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA"),
        (
            lambda log: drop_columns(log, ["a.element"]),
            "DELTA_UNSUPPORTED_DROP_NESTED_COLUMN_FROM_NON_STRUCT_TYPE",
        ),
        (
            lambda log: drop_columns(log, ["m.key"]),
            "DELTA_UNSUPPORTED_DROP_NESTED_COLUMN_FROM_NON_STRUCT_TYPE",
        ),
        (lambda log: rename_column(log, "a.element", "e"), None),
        (lambda log: rename_column(log, "m.value", "v"), None),
        (lambda log: commit_altered(log, ("m.value", ColumnChange(position="first"))), None),
        (lambda log: commit_altered(log, ("a.element", ColumnChange(comment="c"))), None),
        (lambda log: commit_altered(log, ("a.element", ColumnChange(type=STRING))), None),
    ],
)
def test_what_is_no_column_of_a_struct_keeps_its_place_and_name(
    nested: TableLog, attempt: Callable[[TableLog], object], error_class: str | None
) -> None:
    with pytest.raises(AlterRefusedError) as caught:
        attempt(nested)
    if error_class is not None:
        assert caught.value.errorClass == error_class
    assert load(nested).version == 0


def test_what_is_in_arrays_and_maps_gets_wider(nested: TableLog) -> None:
    commit_altered(nested, ("a.element", ColumnChange(type=INTEGER)))
    commit_altered(nested, ("m.key", ColumnChange(type=LONG)))
    commit_altered(nested, ("m.value.x", ColumnChange(type=INTEGER)))
    schema = load(nested).schema
    types = {f.name: str(f.type) for f in schema.fields}
    assert types["a"] == "array<integer>"
    assert types["m"] == "map<long,struct<x:integer,y:short>>"
    recorded = {p: f.metadata.get("delta.typeChanges") for p, f in schema.walk()}
    assert recorded[("a",)] == [{"toType": "integer", "fromType": "short", "fieldPath": "element"}]
    assert recorded[("m",)] == [{"toType": "long", "fromType": "short", "fieldPath": "key"}]
    assert recorded[("m", "value", "x")] == [{"toType": "integer", "fromType": "short"}]


def test_columns_with_statistics_follow_names_and_go_with_their_columns(nested: TableLog) -> None:
    rename_column(nested, "s", "t")
    rename_column(nested, "t.x", "an x")
    assert load(nested).properties[INDEXED] == "id,t.`an x`,m"
    drop_columns(nested, ["t", "m"])
    assert load(nested).properties[INDEXED] == "id"


def test_a_column_after_itself_stays_where_it_is(nested: TableLog) -> None:
    assert commit_altered(nested, ("s.y", ColumnChange(position=parse_position("AFTER y")))) is None
    commit_altered(nested, ("s.x", ColumnChange(position=parse_position("AFTER Y"))))
    assert [p[1] for p, _ in load(nested).schema.walk() if p[0] == "s" and len(p) == 2] == ["y", "x"]


def test_an_identity_column_keeps_its_type_and_has_no_default() -> None:
    log = _table(column("id", "long", **IDENTITY), column("v"))
    for change in (ColumnChange(type=INTEGER), ColumnChange(default="1")):
        with pytest.raises(AlterRefusedError) as caught:
            commit_altered(log, ("id", change))
        assert caught.value.errorClass == "DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED"
    with pytest.raises(AlterRefusedError) as caught:
        replace_columns(log, StructType((StructField("id", LONG), StructField("v", LONG))))
    assert caught.value.errorClass == "DELTA_IDENTITY_COLUMNS_REPLACE_COLUMN_NOT_SUPPORTED"
    commit_altered(
        log, ("id", ColumnChange(comment="numbers", type=LONG, position=parse_position("after v")))
    )
    assert load(log).schema.names == ("v", "id")


@pytest.mark.parametrize(
    ("was", "wanted", "fits"),
    [
        (None, "varchar(2)", False),
        ("varchar(5)", "varchar(2)", False),
        ("varchar(5)", "char(5)", False),
        ("varchar(5)", "varchar(9)", True),
        ("char(5)", "varchar(5)", True),
        ("varchar(5)", None, True),
        ("varchar(5)", "varchar(5)", True),
    ],
)
def test_a_list_of_columns_gives_strings_no_length_that_rows_may_exceed(
    was: str | None, wanted: str | None, fits: bool
) -> None:
    def described(length: str | None) -> StructField:
        return StructField("c", STRING, True, {} if length is None else {LENGTHS: length})

    log = _table(column("c", "string", **({} if was is None else {LENGTHS: was})))
    if fits:
        replace_columns(log, StructType((described(wanted),)))
        assert load(log).schema.fields == (described(wanted),)
    else:
        with pytest.raises(AlterRefusedError, match="REPLACE COLUMNS"):
            replace_columns(log, StructType((described(wanted),)))


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        (
            [column("d", "date", **{"delta.generationExpression": "CAST(t AS DATE)"}), column("t")],
            "generated value",
        ),
        ([column("d", "date"), column("t", CURRENT_DEFAULT="5")], "a default"),
        ([column("d", "date"), column("t"), column("u", CURRENT_DEFAULT="5")], "a default"),
        (
            [column("d", "date"), column("t"), column("s", _struct(column("a", nullable=False)))],
            "may not be null",
        ),
        ([column("d", "date")], "no column that holds data"),
    ],
)
def test_a_list_of_columns_promises_nothing_of_rows_that_are_there(
    columns: list[dict[str, object]], what: str
) -> None:
    log = _table(column("d", "date"), column("t"), delta_columnMapping_mode="name")
    transaction = Transaction.begin(log)
    transaction.update_metadata(msgspec.structs.replace(transaction.metadata, partition_columns=("d",)))
    transaction.commit(operation="REPLACE TABLE")
    with pytest.raises(AlterRefusedError, match=what):
        replace_columns(log, parse_schema(json.dumps(_struct(*columns))))
    assert load(log).version == 1
