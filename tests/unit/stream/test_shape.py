"""Which files fit the schema that a stream was started with."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.tables import column, metadata, schema_string
from tidegate.metadata import Metadata
from tidegate.spark.stream.shape import mismatch

INT_LIST = {"type": "array", "elementType": "integer", "containsNull": True}
LONG_LIST = {"type": "array", "elementType": "long", "containsNull": True}
MAPPED = {"delta.columnMapping.mode": "name"}


def _metadata(*columns: Any, partitions: tuple[str, ...] = (), **configuration: str) -> Metadata:
    wire = metadata(schema_string(*columns), partitions, configuration)["metaData"]
    return msgspec.convert(wire, Metadata)


def _struct(*columns: Any) -> Any:
    return {"type": "struct", "fields": list(columns)}


def _mapped(name: str, physical: str, number: int) -> Any:
    more = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    return column(name, "long", True, **more)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ([column("a")], [column("a")]),
        ([column("a")], [column("a"), column("b")]),
        ([column("a", "integer")], [column("a", "long")]),
        ([column("a", nullable=False)], [column("a")]),
        ([column("a", INT_LIST)], [column("a", LONG_LIST)]),
        ([column("s", _struct(column("x")))], [column("s", _struct(column("x"), column("y")))]),
    ],
)
def test_files_with_fewer_or_narrower_columns_fit(written: list[Any], read: list[Any]) -> None:
    assert mismatch(_metadata(*written), _metadata(*read)) is None


@pytest.mark.parametrize(
    ("written", "read", "reason"),
    [
        ([column("a"), column("b")], [column("a")], "column b"),
        ([column("a", "long")], [column("a", "integer")], "a is long"),
        ([column("a")], [column("a", nullable=False)], "may be null"),
        ([column("a")], [column("A")], "column a"),
        ([column("a", LONG_LIST)], [column("a", INT_LIST)], "a.element"),
        ([column("s", _struct(column("x")))], [column("s", _struct(column("y")))], "s.x"),
    ],
)
def test_anything_else_does_not_and_the_reason_names_the_column(
    written: list[Any], read: list[Any], reason: str
) -> None:
    assert reason in (mismatch(_metadata(*written), _metadata(*read)) or "")


def test_a_column_that_only_kept_its_name_is_another_column() -> None:
    old = _metadata(_mapped("a", "col-1", 1), **MAPPED)
    renamed = _metadata(_mapped("b", "col-1", 1), **MAPPED)
    replaced = _metadata(_mapped("a", "col-2", 2), **MAPPED)
    assert "dropped or renamed" in (mismatch(old, replaced) or "")
    assert "column a" in (mismatch(old, renamed) or "")
    assert mismatch(_metadata(column("a")), _metadata(_mapped("a", "a", 1), **MAPPED)) is None


def test_another_partitioning_does_not_fit() -> None:
    plain, parted = _metadata(column("a")), _metadata(column("a"), partitions=("a",))
    assert "partitioned by a" in (mismatch(parted, plain) or "")
